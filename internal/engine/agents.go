package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/spec"
)

// AgentInfo is an agent as a list shows it.
type AgentInfo struct {
	Name string
	// Spec is its description, and File the user's it stands in: empty for one
	// that comes with Bothy.
	Spec *spec.Agent
	File string
	// Broken says why there is no Spec.
	Broken    error
	Installed []InstalledAgent // newest first
}

// InstalledAgent is a version that is there.
type InstalledAgent struct {
	agent.Installation
	New       bool     // it is what new sandboxes use
	Sandboxes []string // the names of those that use it
}

// ListAgents gives the agents there are by name, and with them those whose
// description is gone while something is still installed.
func (e *Engine) ListAgents() ([]AgentInfo, error) {
	names, err := e.Agents.Names()
	if err != nil {
		return nil, err
	}
	installed, err := agent.Installed(e.Store)
	if err != nil {
		return nil, err
	}
	users, err := e.users()
	if err != nil {
		return nil, err
	}
	for _, i := range installed {
		if !slices.Contains(names, i.Name) {
			names = append(names, i.Name)
		}
	}
	slices.Sort(names)
	list := make([]AgentInfo, 0, len(names))
	for _, name := range names {
		info := AgentInfo{Name: name}
		info.Spec, info.Broken = e.Agents.Find(name)
		_, info.File, _ = e.Agents.Text(name) // why it cannot be read, Find says
		for _, i := range installed {
			if i.Name != name {
				continue
			}
			info.Installed = append(info.Installed, InstalledAgent{Installation: i, Sandboxes: users[pin{name, i.ID()}]})
		}
		e.markNew(&info)
		list = append(list, info)
	}
	return list, nil
}

// markNew tells which version new sandboxes use.
func (e *Engine) markNew(info *AgentInfo) {
	if info.Spec == nil || info.Spec.Install == nil {
		return
	}
	there, ok, err := e.newest(info.Spec, agent.TargetOf("/"))
	if err != nil || !ok {
		return // it is not made for this host, or none is there
	}
	for i := range info.Installed {
		info.Installed[i].New = info.Installed[i].ID() == there.ID()
	}
}

// pin is an installation as a sandbox names it.
type pin struct{ name, id string }

// users tells which sandboxes use an installation, by their names; those that are put away, too.
func (e *Engine) users() (map[pin][]string, error) {
	list, err := e.Store.List()
	if err != nil {
		return nil, err
	}
	users := map[pin][]string{}
	for _, sb := range list {
		if sb.Broken == "" {
			uses(users, sb)
		}
	}
	if err := e.eachAway(func(r *record) error { uses(users, r.Sandbox); return nil }); err != nil {
		return nil, err
	}
	for _, names := range users {
		slices.Sort(names)
	}
	return users, nil
}

func uses(users map[pin][]string, sb *spec.Sandbox) {
	for p := sb.Program; p != nil; p = p.Runtime {
		at := pin{cmp.Or(p.From, sb.Agent), p.Installation}
		users[at] = append(users[at], sb.Name)
	}
}

// AgentInUse is an error that names the sandboxes which use an installation;
// nil if none does.
func (e *Engine) AgentInUse(name, id string) error {
	users, err := e.users()
	if err != nil {
		return err
	}
	names := users[pin{name, id}]
	if len(names) == 0 {
		return nil
	}
	return spec.Errorf(spec.ErrConflict, "%s %s is used by sandbox %s", name, id, strings.Join(names, ", ")).
		WithHint("give it another version (bothy run --upgrade %s), or use --force: it does not start then", names[0])
}

// RemoveAgent removes an installation. One that a sandbox uses stays, unless
// forced. Nobody can begin to use it meanwhile.
func (e *Engine) RemoveAgent(name, id string, force bool) error {
	lock, err := e.Store.NamesLock(context.Background())
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return agent.Remove(e.Store, name, id, func() error {
		if force {
			return nil
		}
		return e.AgentInUse(name, id)
	})
}

// AgentIDs gives the installations of an agent that a version means; all with an
// empty one. None is an error of class [spec.ErrNotFound].
func (e *Engine) AgentIDs(name, version string) ([]string, error) {
	home, err := agent.HomeOf(e.Store, name)
	if err != nil {
		return nil, err
	}
	ids, err := home.IDs(version)
	if err == nil && len(ids) == 0 {
		err = spec.Errorf(spec.ErrNotFound, "%s is not installed", strings.TrimSpace(name+" "+version)).
			WithHint("bothy agent ls shows what is")
	}
	return ids, err
}
