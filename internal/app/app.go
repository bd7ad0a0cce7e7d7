// Package app puts the parts of Bothy together for one caller, a command line or a Go program: the state
// directory, the engine and the packages that it calls, and the provisioner. It has no terminal.
package app

import (
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/builder"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/internal/setup"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Options are the caller's part.
type Options struct {
	Settings settings.Settings
	// Note receives a text that a person should know.
	Note func(text string)
	// Passphrase asks a person for the passphrase of the secrets; twice for a fresh one. Nil: no person
	// can be asked.
	Passphrase func(fresh bool) ([]byte, error)
	// OwnProcess says that the process is Bothy's own. While secrets are read, Bothy then catches the signals
	// that end the process, and lends its terminal to commands that print secrets. In another process the
	// signals and the terminal are left alone, and the caller's context ends such commands.
	OwnProcess bool
	// Unenforced receives the limits that a person set, for a sandbox that was started or in the settings, and
	// that are not enforced. May be nil. Doctor reports the default limits.
	Unenforced func(spec.Enforcement)
	// Claims returns the sandboxes that unattended work needs: see [engine.Engine.Claims]. May be nil.
	Claims func(*engine.Engine) (map[string]string, error)
}

// Open opens the state directory of the user.
func Open(o Options) (*engine.Engine, error) {
	s, err := OpenStore("")
	if err != nil {
		return nil, err
	}
	return OpenIn(s, o), nil
}

// OpenStore opens a state directory; "" means that of the user, [store.Dir]. A relative path is beneath
// the current directory.
func OpenStore(dir string) (*store.Store, error) {
	find := store.Dir
	if dir != "" {
		find = func() (string, error) { return store.Absolute(dir) }
	}
	path, err := find()
	if err != nil {
		return nil, err
	}
	return store.Open(path)
}

// OpenIn returns an engine for a state directory that is open.
func OpenIn(s *store.Store, o Options) *engine.Engine {
	e := &engine.Engine{
		Store: s, Version: program.Version(), Agents: provision.Agents(),
		Defaults: o.Settings.Limits(), SaveEvery: o.Settings.SaveEvery, Prices: o.Settings.Prices, StoreLimit: o.Settings.StoreLimit,
		Progress: o.Note, Unenforced: o.unenforced, Passphrase: o.Passphrase, OwnProcess: o.OwnProcess,
	}
	if o.Claims != nil {
		e.Claims = func() (map[string]string, error) { return o.Claims(e) }
	}
	snapshot.New(e).Attach()
	return e
}

// unenforced passes on a limit that is not enforced on a sandbox, if a person set it.
func (o *Options) unenforced(sb *spec.Sandbox, l spec.Enforcement) {
	if o.Unenforced != nil && (isLimitSet(sb.Limits, l.Limit) || isLimitSet(o.Settings.Asked(), l.Limit)) {
		o.Unenforced(l)
	}
}

// isLimitSet reports whether the named limit is set. A limit that it does not know counts as set.
func isLimitSet(l spec.Limits, name string) bool {
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
	return true
}

// Provisioner returns what makes the sandboxes of an engine.
func Provisioner(e *engine.Engine, s settings.Settings, w provision.Watcher) *provision.Provisioner {
	return &provision.Provisioner{Engine: e, Settings: s, Watcher: w}
}

// Quiet is a watcher that passes on notes, and no progress.
type Quiet func(format string, args ...any)

// Note implements [provision.Watcher].
func (q Quiet) Note(format string, args ...any) { q(format, args...) }

// Installing implements [provision.Watcher].
func (q Quiet) Installing() (agentprogram.Progress, func()) {
	return func(string, agent.Event) {}, func() {}
}

// SettingUp implements [provision.Watcher]. Each line of output is a note.
func (q Quiet) SettingUp() setup.Viewer { return setup.Viewer{Note: q, Output: lineNoter(q)} }

// lineNoter passes on each line that is written to it as a note.
type lineNoter func(format string, args ...any)

func (n lineNoter) Write(line []byte) (int, error) {
	n("%s", strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

// Fetching implements [provision.Watcher].
func (q Quiet) Fetching() (func(image.Event), func()) { return func(image.Event) {}, func() {} }

// Building implements [provision.Watcher].
func (q Quiet) Building() func(builder.Event) { return func(builder.Event) {} }
