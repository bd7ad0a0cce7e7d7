package agentprogram

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/spec"
)

// Agent describes an agent for a list.
type Agent struct {
	Name string
	// Spec is the agent's description. File is the user's file that holds it; it is empty for an
	// agent that comes with Bothy.
	Spec *spec.Agent
	File string
	// Broken says why Spec is nil.
	Broken    error
	Installed []Installed // newest first
}

// Installed is an installed version.
type Installed struct {
	agent.Installation
	New       bool     // new sandboxes use it
	Sandboxes []string // names of the sandboxes that use it
}

// List returns all agents by name. It includes agents whose description is gone while a
// version is still installed.
func (s *Programs) List() ([]Agent, error) {
	names, err := s.Agents.Names()
	if err != nil {
		return nil, err
	}
	installed, err := agent.Installed(s.Store)
	if err != nil {
		return nil, err
	}
	users, err := s.users()
	if err != nil {
		return nil, err
	}
	for _, i := range installed {
		if !slices.Contains(names, i.Name) {
			names = append(names, i.Name)
		}
	}
	slices.Sort(names)
	list := make([]Agent, 0, len(names))
	for _, name := range names {
		info := Agent{Name: name}
		info.Spec, info.Broken = s.Agents.Find(name)
		_, info.File, _ = s.Agents.Text(name) // Find reports why it cannot be read
		for _, i := range installed {
			if i.Name != name {
				continue
			}
			info.Installed = append(info.Installed, Installed{Installation: i, Sandboxes: users[pin{name, i.ID()}]})
		}
		s.markNew(&info)
		list = append(list, info)
	}
	return list, nil
}

// markNew marks the version that new sandboxes use.
func (s *Programs) markNew(info *Agent) {
	if info.Spec == nil || info.Spec.Install == nil {
		return
	}
	there, ok, err := s.newest(info.Spec, agent.TargetOf("/"))
	if err != nil || !ok {
		return // the agent does not run on this host, or no version is installed
	}
	for i := range info.Installed {
		info.Installed[i].New = info.Installed[i].ID() == there.ID()
	}
}

// pin is an installation as a sandbox names it.
type pin struct{ name, id string }

// users returns the names of the sandboxes that use each installation, including sandboxes that are
// put away.
func (s *Programs) users() (map[pin][]string, error) {
	list, err := s.Store.List()
	if err != nil {
		return nil, err
	}
	users := map[pin][]string{}
	for _, sb := range list {
		if sb.Broken == "" {
			addUses(users, sb)
		}
	}
	if err := s.EachAway(func(sb *spec.Sandbox) error { addUses(users, sb); return nil }); err != nil {
		return nil, err
	}
	for _, names := range users {
		slices.Sort(names)
	}
	return users, nil
}

func addUses(users map[pin][]string, sb *spec.Sandbox) {
	for _, first := range []*spec.Program{sb.Program, sb.Adapter} {
		for p := first; p != nil; p = p.Runtime {
			at := pin{cmp.Or(p.From, sb.Agent), p.Installation}
			if !slices.Contains(users[at], sb.Name) {
				users[at] = append(users[at], sb.Name)
			}
		}
	}
}

// CheckUnused returns an error of class [spec.ErrConflict] that names the sandboxes that use an installation, or nil if none
// does.
func (s *Programs) CheckUnused(name, id string) error {
	users, err := s.users()
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

// Remove removes an installation. Without force it keeps one that a sandbox uses. The names
// lock keeps new sandboxes from using it meanwhile.
func (s *Programs) Remove(name, id string, force bool) error {
	lock, err := s.Store.NamesLock(context.Background())
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return agent.Remove(s.Store, name, id, func() error {
		if force {
			return nil
		}
		return s.CheckUnused(name, id)
	})
}

// IDs returns the installations of an agent that match a version; an empty version matches
// all. It returns an error of class [spec.ErrNotFound] if none match.
func (s *Programs) IDs(name, version string) ([]string, error) {
	home, err := agent.HomeOf(s.Store, name)
	if err != nil {
		return nil, err
	}
	ids, err := home.IDs(version)
	if err == nil && len(ids) == 0 {
		err = spec.Errorf(spec.ErrNotFound, "%s is not installed", strings.TrimSpace(name+" "+version)).
			WithHint("bothy agent ls lists those that are")
	}
	return ids, err
}
