package inject

import (
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// whyOver returns why a lease gives nothing, and what helps.
func (l *loan) whyOver(now time.Time) string {
	switch {
	case l.taken:
		return "its lease was taken back: " + l.lendAgain()
	case !l.Live(now):
		return "its lease has ended"
	}
	inspect, stop := policy.Suggestion{Args: []string{"inspect", l.box}}, policy.Suggestion{Args: []string{"stop", l.box}}
	return "the sandbox started without it: " + inspect.Command(l.box) + ", on the host, says why; when that is mended, " +
		stop.Command(l.box) + ": the next start lends it"
}

// lendAgain returns how to lend a lease again that was taken back.
func (l *loan) lendAgain() string {
	if l.Captured != "" {
		return "log in again, as the first time"
	}
	return l.againCommand().Command(l.box) + ", on the host, lends it again"
}

// againCommand is the command that made the lease. The lease's duration is not known any more: the
// user has to give it.
func (l *loan) againCommand() policy.Suggestion {
	if l.Tool != "" {
		return policy.Suggestion{Args: []string{"run", "--lend", l.Tool, l.box}}
	}
	args := []string{"secret", "lease", l.Secret}
	if l.login == nil { // a login knows its hosts
		args = slices.Concat(args, flagEach("--host", l.Hosts), flagEach("--method", l.Methods), flagEach("--path", l.Paths), placeFlags(l.Place), flagEach("--env", l.Env))
		if len(l.Env) == 0 {
			args = append(args, "--env", "")
		}
	}
	if !l.Until.IsZero() {
		args = append(args, "--for", "TIME")
	}
	return policy.Suggestion{Args: args, PerSandbox: true}
}

// flagEach returns one flag for each value.
func flagEach(name string, values []string) (args []string) {
	for _, v := range values {
		args = append(args, name, v)
	}
	return args
}

// placeFlags returns no flags for a place that only a known service has.
func placeFlags(p spec.Place) []string {
	switch p.Kind {
	case spec.PlaceBearer:
		return []string{"--bearer"}
	case spec.PlaceBasic:
		return []string{"--basic", p.User}
	case spec.PlaceHeader:
		return []string{"--header", p.Name}
	case spec.PlaceQuery:
		return []string{"--query", p.Name}
	}
	return nil
}
