package keeper

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// process turns a command into something the wall can run: who, where, with
// which environment.
func (k *Keeper) process(ctx context.Context, c wire.Command) (driver.Process, error) {
	if k.spec.Build != nil { // what it makes is the same whoever builds
		c.Caller = wire.Caller{}
	}
	who := k.account
	if user := c.User; user != "" || k.spec.User != "" {
		if user == "" {
			user = k.spec.User
		}
		r, err := k.link.Ask(ctx, wire.InitAsk{Ask: wire.AskUser, User: user})
		if err != nil {
			return driver.Process{}, err
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
		p.Dir = k.spec.Primary()
	}
	if i := k.launch.Image; p.Dir == "" && i != nil && !k.hides(i.Workdir) {
		p.Dir = i.Workdir
	}
	if p.Dir == "" {
		p.Dir = who.Home
	}
	var pwd string
	if len(k.spec.Named)+len(c.Caller.Named) > 0 {
		named := slices.Concat(c.Caller.Named, k.spec.Named)
		p.Dir, pwd = namedDir(p.Dir, c.Dir != "", k.lead(ctx, c.Caller.Named), named)
	}
	if !filepath.IsAbs(p.Dir) {
		return driver.Process{}, spec.Errorf(spec.ErrUsage, "working directory %q is not absolute", p.Dir)
	}
	lent := k.lent(time.Now())
	k.openAgent(ctx, lent)
	p.Env = k.environment(who, c, lent)
	if pwd != "" {
		p.Env = append(p.Env, "PWD="+pwd)
	}
	return p, nil
}

// hides tells of a directory of an image whether the sandbox has a file system in memory
// over it, and nothing of its own over that.
func (k *Keeper) hides(dir string) bool {
	if !strings.HasPrefix(dir, "/tmp/") && !strings.HasPrefix(dir, hostroot.SharedMemory+"/") {
		return false
	}
	return !slices.ContainsFunc(k.spec.Mounted(), func(m string) bool {
		return dir == m || strings.HasPrefix(dir, m+"/")
	})
}

// environment is what every program inside starts with; later entries win.
func (k *Keeper) environment(who wire.Account, c wire.Command, lent []spec.Lease) []string {
	path := k.searchPath(who, c.Caller)
	env := append([]string{"LANG=C.UTF-8"}, k.language(c.Caller)...)
	if i := k.launch.Image; i != nil {
		env = append(env, i.Env...)
	}
	if d := k.spec.Devcontainer; d != nil {
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
		"HOSTNAME="+k.spec.Name,
		"IS_SANDBOX=1",
		"SANDBOX_NAME="+k.spec.Name,
		"SANDBOX_ID="+k.spec.ID,
		"WORKSPACE_DIR="+k.spec.Primary(),
	)
	if who.UID != 0 { // npm install -g needs no sudo; what it installs is in PATH
		env = append(env, "NPM_CONFIG_PREFIX="+who.Home+"/.local")
	}
	env = append(env, trust.Environment()...)
	// pnpm would keep its packages in the project; see engine.storesAtHome.
	env = append(env, "PNPM_CONFIG_STORE_DIR="+strings.TrimSuffix(who.Home, "/")+"/.local/share/pnpm/store")
	if k.tellsJava() {
		env = append(env, trust.JavaOptions)
	}
	env = append(env, gitConfig(lent, who.UID == 0 && k.launch.Image != nil)...)
	if len(k.launch.Git) > 0 { // in the place of the system's, which it includes
		env = append(env, "GIT_CONFIG_SYSTEM="+hostroot.GitConfigPath)
	}
	env = append(env, placeholders(lent)...)
	env = append(env, k.spec.Env...)
	env = append(env, c.Env...)
	env = lastWins(env)
	k.keepOwn(env)
	return append(env, hostroot.SearchPathVariable+"="+value(env, "PATH", path))
}

// value is what the last variable of a name has, if there is one.
func value(env []string, name, otherwise string) string {
	for _, kv := range env {
		if n, v, ok := strings.Cut(kv, "="); ok && n == name && v != "" {
			otherwise = v
		}
	}
	return otherwise
}

// lastWins drops all but the last value of each variable, and what is none.
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
