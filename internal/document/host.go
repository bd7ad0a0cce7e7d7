package document

import (
	"context"
	"runtime"

	"github.com/bothy-dev/bothy/internal/doctor"
	"github.com/bothy-dev/bothy/internal/program"
)

// Version names this build.
type Version struct {
	Version string `json:"version"`
	GVisor  string `json:"gvisor"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// ThisVersion returns the version of this build.
func ThisVersion() Version {
	return Version{program.Version(), program.GVisor, runtime.Version(), runtime.GOOS, runtime.GOARCH}
}

// Doctor has the results of checks.
type Doctor struct {
	Checks []doctor.Check `json:"checks"`
	OK     bool           `json:"ok"` // sandboxes can run on this host
}

// CheckHost checks whether this host can run sandboxes with a state directory.
func CheckHost(ctx context.Context, stateDir string) Doctor {
	return DoctorOf(doctor.Run(ctx, stateDir))
}

// DoctorOf returns the document of some checks.
func DoctorOf(checks []doctor.Check) Doctor {
	d := Doctor{Checks: checks, OK: true}
	for _, c := range checks {
		d.OK = d.OK && c.Result != doctor.Fail
	}
	return d
}
