package command

import (
	"context"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// This file decides the effect of a caller's settings inside.

// ownDirectories are Bothy's own directories of PATH.
func (m *Preparer) ownDirectories() []string {
	list := []string{ownBin}
	if m.Spec.Tasks != "" {
		list = append(list, ownTasks)
	}
	if m.Spec.Loop != "" {
		list = append(list, ownLoop)
	}
	return list
}

const (
	ownBin   = "/" + hostroot.Own + "/bin"
	ownTasks = "/" + hostroot.Own + "/tasks"
	ownLoop  = "/" + hostroot.Own + "/loop"
)

// searchPath returns PATH. It includes the caller's directories that show the same files inside,
// unless an image or a devcontainer.json sets PATH. Directories with programs of the host come in their
// order before the template's usual ones. Shared directories come last: a program that an agent writes
// there must not replace a system program, least of all one that a check runs.
func (m *Preparer) searchPath(who wire.Account, c wire.Caller) string {
	var usual string
	fixed := false
	if i := m.Launch.Image; i != nil {
		usual = lastValue(i.Env, "PATH", usual)
	}
	if d := m.Spec.Devcontainer; d != nil {
		if v := lastValue(d.Env, "PATH", ""); v != "" {
			usual, fixed = v, true
		}
	}
	if usual == "" {
		usual = hostroot.Path
	}
	list := append(m.ownDirectories(), strings.TrimSuffix(who.Home, "/")+"/.local/bin")
	add := func(dirs ...string) {
		for _, dir := range dirs {
			if !slices.Contains(list, dir) {
				list = append(list, dir)
			}
		}
	}
	var programs, shared []string
	if !fixed {
		for _, dir := range c.Path {
			switch {
			case m.isCovered(dir):
			case m.isShared(dir):
				shared = append(shared, dir)
			case m.Launch.Image == nil && (hostroot.Visible(dir+"/") || hostroot.Visible(dir)):
				programs = append(programs, dir)
			}
		}
	}
	add(programs...)
	add(strings.Split(usual, ":")...)
	add(shared...)
	return strings.Join(list, ":")
}

// isCovered reports whether one of the sandbox's own directories covers a directory of the host.
func (m *Preparer) isCovered(dir string) bool {
	return slices.ContainsFunc(m.Launch.Hidden, func(top string) bool { return workspace.Within(top, dir) })
}

// isShared reports whether a directory of the host is shared, and at its own path inside.
func (m *Preparer) isShared(dir string) bool {
	return slices.ContainsFunc(m.Spec.Named, func(n spec.Named) bool { return workspace.Within(n.Path, dir) }) ||
		slices.ContainsFunc(slices.Concat(m.Spec.Workspaces, m.Spec.Volumes), func(w spec.Mount) bool {
			return w.Source == w.Target && workspace.Within(w.Target, dir)
		})
}

// keepOwn puts Bothy's own directories before a PATH that was set by hand and lacks them. The agent and
// sudo are found there.
func (m *Preparer) keepOwn(env []string) {
	for i, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		dirs := strings.Split(list, ":")
		var lacks []string
		for _, own := range m.ownDirectories() {
			if !slices.Contains(dirs, own) {
				lacks = append(lacks, own)
			}
		}
		if list != "" {
			lacks = append(lacks, list)
		}
		env[i] = "PATH=" + strings.Join(lacks, ":")
	}
}

// language returns the caller's settings of language and time zone. An image's own settings win: its
// maker knows which languages and time zones it contains.
func (m *Preparer) language(c wire.Caller) (env []string) {
	for _, kv := range c.Locale {
		_, v, _ := strings.Cut(kv, "=")
		if m.Launch.Image == nil || v == "C" || v == "POSIX" || v == "C.UTF-8" {
			env = append(env, kv)
		}
	}
	switch {
	case c.TZ != "" && (m.Launch.Image == nil || m.Launch.Zones):
		env = append(env, "TZ="+c.TZ)
	case c.Zone != "" && m.Launch.Image != nil && m.Launch.Zones: // else /etc/localtime is the host's
		env = append(env, "TZ="+c.Zone)
	}
	return env
}

// Terminals returns names under which a terminal may be known inside if its own is not, the best first.
func Terminals(env []string) []string {
	name := lastValue(env, "TERM", "")
	family := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	}
	switch {
	case name == "" || name == "dumb":
		return nil
	case family("screen", "tmux"):
		return []string{"screen-256color", "screen", "xterm-256color", "xterm"}
	case family("linux", "cons", "vt", "ansi", "sun"):
		return []string{"linux", "vt220", "vt100", "ansi"}
	case family("rxvt"):
		return []string{"rxvt-256color", "rxvt", "xterm-256color", "xterm"}
	}
	return []string{"xterm-256color", "xterm"}
}

// Umask returns the file mode mask of a caller's programs. It is empty in a build.
func (m *Preparer) Umask(c wire.Caller) string {
	if m.Spec.Build != nil {
		return ""
	}
	return c.Umask
}

// maxNamed bounds how many links are made for one command.
const maxNamed = 16

// makeLinks makes init create links at the paths by which shared directories were named. It returns the
// paths that lead there.
func (m *Preparer) makeLinks(ctx context.Context, asked []spec.Named) []spec.Named {
	m.naming.Lock()
	defer m.naming.Unlock()
	var fresh []spec.Named
	for _, n := range slices.Concat(m.Spec.Named, asked[:min(len(asked), maxNamed)]) {
		if _, done := m.led[n]; !done && m.mayLead(n) && len(m.led)+len(fresh) < 2*maxNamed {
			fresh = append(fresh, n)
		}
	}
	if len(fresh) > 0 {
		r, err := m.Init.Ask(ctx, wire.InitAsk{Ask: wire.AskNamed, Named: fresh, Places: m.Places})
		if err != nil || len(r.Led) != len(fresh) {
			m.Event("named.unlinked", map[string]any{"paths": fresh, "error": errorText(err)})
			r.Led = make([]bool, len(fresh))
		}
		if m.led == nil {
			m.led = map[spec.Named]bool{}
		}
		for i, n := range fresh {
			m.led[n] = r.Led[i]
		}
	}
	var led []spec.Named
	for n, leads := range m.led {
		if leads {
			led = append(led, n)
		}
	}
	return led
}

func errorText(err error) string {
	if err == nil {
		return "init gave no answer to it"
	}
	return err.Error()
}

// mayLead reports whether init may make a link at a named path to its mount.
func (m *Preparer) mayLead(n spec.Named) bool {
	if n.Path == n.Target || !slices.ContainsFunc(m.Spec.Workspaces, func(w spec.Mount) bool { return w.Target == n.Target }) {
		return false
	}
	return len(n.Path) > 1 && n.Path[0] == '/' && !strings.HasPrefix(n.Path+"/", "/"+hostroot.Own+"/")
}

// namedDir returns the path by which a directory was named; without a wish, that of the primary
// workspace. pwd is the value of PWD that makes shells show this path. It is empty if the directory was
// named by its own path.
func namedDir(dir string, asked bool, led, named []spec.Named) (at, pwd string) {
	slices.SortFunc(led, func(a, b spec.Named) int { return strings.Compare(a.Path, b.Path) })
	if asked {
		for _, n := range led {
			if dir == n.Path || strings.HasPrefix(dir, n.Path+"/") {
				return dir, dir
			}
		}
		return dir, ""
	}
	for _, n := range named { // the caller's before the creator's
		if n.Target == dir && slices.Contains(led, n) {
			return n.Path, n.Path
		}
	}
	return dir, ""
}
