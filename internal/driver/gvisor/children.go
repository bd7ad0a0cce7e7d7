// Package gvisor builds sandboxes on gVisor, used in process: a user-space
// kernel (the sentry) and a file server (the gofer), both children of the
// keeper and both this same binary again. It is the only package that may
// import gVisor's runsc.
package gvisor

import (
	"strings"

	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"
)

// Names under which gVisor looks for the programs it starts.
const (
	sentryName    = "gvisor_sentry"
	prewarmerName = "gvisor-sentry-prewarmer"
)

// IsChild reports whether this process was started by gVisor itself, judged by
// the arguments gVisor's children carry. It must be asked before any flag is
// parsed. The prewarmer, and the umounter, are played by package role.
func IsChild(args []string) bool {
	if len(args) == 0 {
		return false
	}
	a0 := args[0]
	switch {
	case strings.HasPrefix(a0, "runsc["), a0 == "runsc-sandbox", a0 == "runsc-gofer":
		return true
	}
	return a0 == "/proc/self/exe" && len(args) > 1 && args[1] == "umount"
}

// RunChild plays the role gVisor asked for. It does not return.
func RunChild(args []string) {
	if strings.HasPrefix(args[0], "runsc[") {
		select {} // a user namespace probe: killed by its parent at once
	}
	installFilters()
	cli.Run(nil, map[util.SubCommand]string{
		new(sentrycmd.Boot):   "internal",
		new(cmd.Gofer):        "internal",
		new(sentrycmd.Umount): "internal",
	}, nil)
}
