package cmdline

import (
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// warnLimit warns a user at a terminal that a limit which they set is not enforced. doctor reports
// the default limits.
func (a *App) warnLimit(sb *spec.Sandbox, l spec.Enforcement) {
	if term.IsTerminal(a.Err) && (asksFor(sb.Limits, l.Limit) || asksFor(a.Settings.Asked(), l.Limit)) {
		a.Note("the %s limit is not enforced on this host: %s", l.Limit, l.Reason)
	}
}

// asksFor reports whether the named limit is set.
func asksFor(l spec.Limits, name string) bool {
	switch name {
	case spec.LimitCPUs:
		return l.CPUs > 0
	case spec.LimitMemory:
		return l.Memory > 0
	case spec.LimitPids:
		return l.Pids > 0
	case spec.LimitDisk:
		return l.Disk > 0
	}
	return true // unknown to this function
}
