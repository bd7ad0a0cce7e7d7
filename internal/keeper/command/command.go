// Package command turns a command into a process: who runs it, where, and with which environment.
package command

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Preparer turns commands into processes that the wall can run.
type Preparer struct {
	Options

	naming sync.Mutex          // guards led; held while links at named paths are made
	led    map[spec.Named]bool // the paths that init was asked to make, and whether they lead there
}

// Options describe the sandbox.
type Options struct {
	Spec    *spec.Sandbox
	Launch  *launch.Settings
	Account wire.Account // that commands run as by default
	Places  []wire.Place // mounts over the root
	Init    asker
	// Event writes an event of the sandbox.
	Event func(kind string, fields map[string]any)
}

// asker asks init.
type asker interface {
	Ask(context.Context, wire.InitAsk) (wire.InitReply, error)
}

// New makes a Preparer for the commands of one sandbox.
func New(o Options) *Preparer { return &Preparer{Options: o} }

// Resolved is a command whose account and directory are known.
type Resolved struct {
	process driver.Process // without its environment
	account wire.Account
	command wire.Command
	pwd     string // the directory as it was named; empty if it is called by its own path
}

// Resolve finds out who runs a command, and where.
func (m *Preparer) Resolve(ctx context.Context, c wire.Command) (Resolved, error) {
	if m.Spec.Build != nil { // the result of a build must not depend on the caller
		c.Caller = wire.Caller{}
	}
	who := m.Account
	if user := c.User; user != "" || m.Spec.User != "" {
		if user == "" {
			user = m.Spec.User
		}
		r, err := m.Init.Ask(ctx, wire.InitAsk{Ask: wire.AskUser, User: user})
		if err != nil {
			return Resolved{}, err
		}
		who = r.Account
	}
	if who.Shell == "" { // as login does
		who.Shell = "/bin/sh"
	}
	if who.Home == "" {
		who.Home = "/"
	}
	p := driver.Process{Args: c.Args, Dir: c.Dir, UID: who.UID, GID: who.GID, Groups: who.Groups, Elevate: true}
	if len(p.Args) == 0 {
		p.Args = []string{who.Shell}
	}
	if p.Dir == "" {
		p.Dir = m.Spec.Primary()
	}
	if i := m.Launch.Image; p.Dir == "" && i != nil && !m.isHidden(i.Workdir) {
		p.Dir = i.Workdir
	}
	if p.Dir == "" {
		p.Dir = who.Home
	}
	var pwd string
	if len(m.Spec.Named)+len(c.Caller.Named) > 0 {
		named := slices.Concat(c.Caller.Named, m.Spec.Named)
		p.Dir, pwd = namedDir(p.Dir, c.Dir != "", m.makeLinks(ctx, c.Caller.Named), named)
	}
	if !filepath.IsAbs(p.Dir) {
		return Resolved{}, spec.Errorf(spec.ErrUsage, "working directory %q is not absolute", p.Dir)
	}
	return Resolved{process: p, account: who, command: c, pwd: pwd}, nil
}

// Process gives a command its environment. lent are the leases in force; java says that Java must be
// told of the sandbox's authority.
func (m *Preparer) Process(r Resolved, lent []spec.Lease, java bool) driver.Process {
	p := r.process
	p.Env = m.environment(r.account, r.command, lent, java)
	if r.pwd != "" {
		p.Env = append(p.Env, "PWD="+r.pwd)
	}
	return p
}

// isHidden reports whether the sandbox has a file system in memory over a directory of an image, and
// does not have its own directory over that.
func (m *Preparer) isHidden(dir string) bool {
	if !strings.HasPrefix(dir, "/tmp/") && !strings.HasPrefix(dir, hostroot.SharedMemory+"/") {
		return false
	}
	return !slices.ContainsFunc(m.Spec.Mounted(), func(at string) bool {
		return dir == at || strings.HasPrefix(dir, at+"/")
	})
}

// environment returns the first environment of every program inside; later entries win.
func (m *Preparer) environment(who wire.Account, c wire.Command, lent []spec.Lease, java bool) []string {
	path := m.searchPath(who, c.Caller)
	env := append([]string{"LANG=C.UTF-8"}, m.language(c.Caller)...)
	if i := m.Launch.Image; i != nil {
		env = append(env, i.Env...)
	}
	if d := m.Spec.Devcontainer; d != nil {
		env = append(env, d.Env...)
	}
	env = append(env, c.Caller.Env...)
	if c.TTY {
		env = append(env, c.Caller.Terminal...)
	}
	env = append(env,
		"PATH="+path,
		"HOME="+who.Home,
		"USER="+who.Name,
		"LOGNAME="+who.Name,
		"SHELL="+who.Shell,
		"HOSTNAME="+m.Spec.Name,
		"IS_SANDBOX=1",
		"SANDBOX_NAME="+m.Spec.Name,
		"SANDBOX_ID="+m.Spec.ID,
		"WORKSPACE_DIR="+m.Spec.Primary(),
	)
	if who.UID != 0 { // npm install -g needs no sudo; the installed programs are in PATH
		env = append(env, "NPM_CONFIG_PREFIX="+who.Home+"/.local")
	}
	env = append(env, trust.Environment()...)
	// pnpm would keep its packages in the project; see engine.storesAtHome.
	env = append(env, "PNPM_CONFIG_STORE_DIR="+strings.TrimSuffix(who.Home, "/")+"/.local/share/pnpm/store")
	if java {
		env = append(env, trust.JavaOptions)
	}
	env = append(env, gitConfig(lent, who.UID == 0 && m.Launch.Image != nil)...)
	if len(m.Launch.Git) > 0 { // replaces the system's configuration, which it includes
		env = append(env, "GIT_CONFIG_SYSTEM="+hostroot.GitConfigPath)
	}
	env = append(env, placeholders(lent)...)
	env = append(env, m.Spec.Env...)
	env = append(env, c.Env...)
	env = lastWins(env)
	m.keepOwn(env)
	return append(env, hostroot.SearchPathVariable+"="+lastValue(env, "PATH", path))
}

// lastValue returns the value of the last variable of a name, or otherwise without one.
func lastValue(env []string, name, otherwise string) string {
	for _, kv := range env {
		if n, v, ok := strings.Cut(kv, "="); ok && n == name && v != "" {
			otherwise = v
		}
	}
	return otherwise
}

// lastWins keeps the last value of each variable, and drops entries that are not variables.
func lastWins(env []string) []string {
	last := map[string]int{}
	for i, kv := range env {
		if name, _, ok := strings.Cut(kv, "="); ok {
			last[name] = i
		}
	}
	var out []string
	for i, kv := range env {
		if name, _, ok := strings.Cut(kv, "="); ok && last[name] == i {
			out = append(out, kv)
		}
	}
	return out
}
