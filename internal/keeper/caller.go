package keeper

import (
	"context"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// This file has what the settings of a caller come to inside.

// ownPath are Bothy's own directories of PATH.
func (k *Keeper) ownPath() []string {
	list := []string{ownBin}
	if k.spec.Tasks != "" {
		list = append(list, ownTasks)
	}
	if k.spec.Loop != "" {
		list = append(list, ownLoop)
	}
	return list
}

const (
	ownBin   = "/" + hostroot.Own + "/bin"
	ownTasks = "/" + hostroot.Own + "/tasks"
	ownLoop  = "/" + hostroot.Own + "/loop"
)

// searchPath is PATH. Of the caller's directories those count that show the same inside, unless
// an image or a devcontainer.json says where programs are to be looked for. Those of the host's
// programs come in their order before the template's usual ones. Shared ones come last: what an
// agent writes there takes no system program's place, of those that a check runs least of all.
func (k *Keeper) searchPath(who wire.Account, c wire.Caller) string {
	var usual string
	fixed := false
	if i := k.launch.Image; i != nil {
		usual = value(i.Env, "PATH", usual)
	}
	if d := k.spec.Devcontainer; d != nil {
		if v := value(d.Env, "PATH", ""); v != "" {
			usual, fixed = v, true
		}
	}
	if usual == "" {
		usual = hostroot.Path
	}
	list := append(k.ownPath(), strings.TrimSuffix(who.Home, "/")+"/.local/bin")
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
			case k.covered(dir):
			case k.shares(dir):
				shared = append(shared, dir)
			case k.launch.Image == nil && (hostroot.Visible(dir+"/") || hostroot.Visible(dir)):
				programs = append(programs, dir)
			}
		}
	}
	add(programs...)
	add(strings.Split(usual, ":")...)
	add(shared...)
	return strings.Join(list, ":")
}

// covered tells whether a directory of the sandbox's own covers one of the host.
func (k *Keeper) covered(dir string) bool {
	return slices.ContainsFunc(k.launch.Hidden, func(top string) bool { return workspace.Within(top, dir) })
}

// shares tells whether a directory of the host is shared, and at its own path inside.
func (k *Keeper) shares(dir string) bool {
	return slices.ContainsFunc(k.spec.Named, func(n spec.Named) bool { return workspace.Within(n.Path, dir) }) ||
		slices.ContainsFunc(slices.Concat(k.spec.Workspaces, k.spec.Volumes), func(m spec.Mount) bool {
			return m.Source == m.Target && workspace.Within(m.Target, dir)
		})
}

// keepOwn puts Bothy's own directories before a PATH that was set by hand and lacks them: the
// agent is found there, and sudo.
func (k *Keeper) keepOwn(env []string) {
	for i, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		dirs := strings.Split(list, ":")
		var lacks []string
		for _, own := range k.ownPath() {
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

// language are the caller's settings that give way to an image's: whoever made that knows
// which languages and time zones are in it.
func (k *Keeper) language(c wire.Caller) (env []string) {
	for _, kv := range c.Locale {
		_, v, _ := strings.Cut(kv, "=")
		if k.launch.Image == nil || v == "C" || v == "POSIX" || v == "C.UTF-8" {
			env = append(env, kv)
		}
	}
	switch {
	case c.TZ != "" && (k.launch.Image == nil || k.launch.Zones):
		env = append(env, "TZ="+c.TZ)
	case c.Zone != "" && k.launch.Image != nil && k.launch.Zones: // else /etc/localtime is the host's
		env = append(env, "TZ="+c.Zone)
	}
	return env
}

// terminals are names under which a terminal may be known inside if it is not by its own, the
// best first.
func terminals(name string) []string {
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

// umask is the file mode mask of a caller's programs; empty in a build.
func (k *Keeper) umask(c wire.Caller) string {
	if k.spec.Build != nil {
		return ""
	}
	return c.Umask
}

// maxNamed bounds how many links are made for one command.
const maxNamed = 16

// lead has the paths by which shared directories were named lead there inside. It returns those
// that do.
func (k *Keeper) lead(ctx context.Context, asked []spec.Named) []spec.Named {
	k.naming.Lock()
	defer k.naming.Unlock()
	var fresh []spec.Named
	for _, n := range slices.Concat(k.spec.Named, asked[:min(len(asked), maxNamed)]) {
		if _, done := k.led[n]; !done && k.mayLead(n) && len(k.led)+len(fresh) < 2*maxNamed {
			fresh = append(fresh, n)
		}
	}
	if len(fresh) > 0 {
		r, err := k.link.Ask(ctx, wire.InitAsk{Ask: wire.AskNamed, Named: fresh, Places: k.places})
		if err != nil || len(r.Led) != len(fresh) {
			k.event("named.unlinked", map[string]any{"paths": fresh, "error": errorText(err)})
			r.Led = make([]bool, len(fresh))
		}
		if k.led == nil {
			k.led = map[spec.Named]bool{}
		}
		for i, n := range fresh {
			k.led[n] = r.Led[i]
		}
	}
	var led []spec.Named
	for n, leads := range k.led {
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

// mayLead tells whether a link at a path is to lead to what is mounted at another.
func (k *Keeper) mayLead(n spec.Named) bool {
	if n.Path == n.Target || !slices.ContainsFunc(k.spec.Workspaces, func(m spec.Mount) bool { return m.Target == n.Target }) {
		return false
	}
	return len(n.Path) > 1 && n.Path[0] == '/' && !strings.HasPrefix(n.Path+"/", "/"+hostroot.Own+"/")
}

// namedDir is the path of a directory as it was named: the primary workspace's if none was
// asked for. PWD has shells call it so; empty if it is called by its own.
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

// tellsJava tells whether Java must be told of the sandbox's authority: something is looked into,
// and no key store of the host's Java has it.
func (k *Keeper) tellsJava() bool {
	if k.javaServed {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mock != nil || len(k.loans) > 0 || k.policy != nil && k.policy.Inspects()
}
