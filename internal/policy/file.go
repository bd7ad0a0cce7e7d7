package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/internal/policy/document"
	"github.com/bothy-dev/bothy/spec"
)

// File is a policy.yaml: a versioned block that the user and the policy commands
// both edit. Rules keep their order, and comments stay where they are.
type File struct {
	Block
	text []byte // as read or last edited; empty if newly made
}

// DecodeFile reads a policy.yaml:
//
//	version: 1
//	default: deny
//	presets: [npm]
//	allow: ["*.example.com:443"]
//	deny: ["**.evil.example"]
//
// Every key but version may be missing, but a key that is present must have a value. Errors are of class
// [spec.ErrUsage] and name the line. The error for a file of a newer version is [spec.ErrNewer].
func DecodeFile(data []byte) (*File, error) {
	n, err := document.ParseYAML(data)
	if err != nil {
		return nil, err
	}
	// This comes first: a newer version has keys that this one does not know.
	i := slices.Index(n.Keys, "version")
	if i >= 0 {
		if err := checkVersion(n.Items[i], "version"); err != nil {
			return nil, err
		}
	}
	known := append([]string{"version"}, blockKeys...)
	b, err := readBlock(n, theFile, known)
	if err != nil {
		return nil, err
	}
	if i < 0 {
		return nil, spec.Errorf(spec.ErrUsage, "version is missing").WithHint("write version: %d", spec.Version)
	}
	return &File{Block: b, text: slices.Clone(document.Unmarked(data))}, nil
}

// DecodeNetwork reads the network: block of a project's bothy.yaml; nil means a document without one.
// The block has the keys of a policy.yaml except version, and may only narrow. DecodeNetwork takes the
// whole document, because decoders do not distinguish a null block from a missing one. It ignores the
// other keys.
func DecodeNetwork(data []byte) (*Block, error) {
	n, err := document.ParseKey(data, "network")
	if err != nil || n == nil {
		return nil, err
	}
	b, err := readBlock(n, "network", blockKeys)
	if err != nil {
		return nil, err
	}
	if err := b.checkProject(func(key string, i int) *document.Node { return entryOf(n, key, i) }); err != nil {
		return nil, err
	}
	return &b, nil
}

// decodePreset reads a file of presets/.
func decodePreset(data []byte) (*Preset, error) {
	n, err := document.ParseYAML(data)
	if err != nil {
		return nil, err
	}
	p := &Preset{}
	if p.Block, err = readBlock(n, "the preset", append([]string{"about", "left_out"}, blockKeys...)); err != nil {
		return nil, err
	}
	for i, key := range n.Keys {
		switch key {
		case "about":
			err = n.Items[i].ReadText(key, &p.About)
		case "left_out":
			err = n.Items[i].ReadList(key, p.leaveOut)
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Preset) leaveOut(n *document.Node) error {
	var l LeftOut
	err := n.ReadMap("left_out", []string{"host", "why", "telemetry"}, func(key string, v *document.Node) error {
		switch key {
		case "host":
			return v.ReadText(key, &l.Host)
		case "telemetry":
			return v.ReadBool(key, &l.Telemetry)
		}
		return v.ReadText(key, &l.Why)
	})
	p.LeftOut = append(p.LeftOut, l)
	return err
}

// Add appends a rule to its list. It replaces a rule that says the same, so that a new expiry or note
// can be set. The error is of class [spec.ErrConflict] if a rule of the file contradicts it word for
// word: with both in place the deny would win, and one of them is a mistake.
func (f *File) Add(r Rule) error {
	r = r.stored()
	if err := r.Check(); err != nil {
		return err
	}
	opposite := r
	opposite.Action = Allow + Deny - r.Action
	for _, o := range f.rules(opposite.Action) {
		if o.key() == opposite.key() {
			return spec.Errorf(spec.ErrConflict, "the same file has %s %s", o.Action, o.Target).
				WithHint("remove it first: bothy policy rm --id %s", o.ID())
		}
	}
	list := slices.Clone(f.rules(r.Action))
	i := slices.IndexFunc(list, func(o Rule) bool { return o.key() == r.key() })
	if i >= 0 {
		list[i] = r
		return f.become(r.Action, list, func(t *text) { t.replace(r.Action, i, r) })
	}
	return f.become(r.Action, append(list, r), func(t *text) { t.append(r) })
}

// Bound returns the rule that Add would replace, if that has a budget.
func (f *File) Bound(r Rule) (Rule, bool) {
	r = r.stored()
	for _, o := range f.rules(r.Action) {
		if o.key() == r.key() && o.MaxUpload > 0 {
			return o, true
		}
	}
	return Rule{}, false
}

// stored returns the rule as it comes back from a file.
func (r Rule) stored() Rule {
	r.Source = Source{}
	r.Until = r.Until.UTC().Truncate(time.Second)
	for _, list := range []*[]string{&r.HTTP.Methods, &r.HTTP.Paths, &r.HTTP.Queries, &r.HTTP.RPC, &r.HTTP.Git} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	if len(r.HTTP.Headers) == 0 {
		r.HTTP.Headers = nil
	}
	if r.Text == "" {
		r.Text = r.Target.String()
	}
	return r
}

// Remove removes the rules with an ID or, if no rule has that ID, those with a target. It
// returns the removed rules. If it finds none, the error is of class [spec.ErrNotFound].
func (f *File) Remove(idOrTarget string) ([]Rule, error) {
	removed, err := f.remove(func(r *Rule) bool { return r.ID() == idOrTarget })
	if err != nil || len(removed) > 0 {
		return removed, err
	}
	if t, err := ParseTarget(idOrTarget); err == nil {
		if removed, err = f.remove(func(r *Rule) bool { return r.Target == t }); err != nil || len(removed) > 0 {
			return removed, err
		}
	}
	return nil, spec.Errorf(spec.ErrNotFound, "no rule %s", ascii.Quote(withoutUser(idOrTarget))).
		WithHint("bothy policy ls shows the rules and their IDs")
}

// Prune removes the rules that have ended.
func (f *File) Prune(now time.Time) ([]Rule, error) {
	return f.remove(func(r *Rule) bool { return !r.Live(now) })
}

func (f *File) remove(match func(*Rule) bool) ([]Rule, error) {
	var removed []Rule
	for _, a := range []Action{Allow, Deny} {
		list := slices.Clone(f.rules(a))
		for i := len(list) - 1; i >= 0; i-- {
			if !match(&list[i]) {
				continue
			}
			removed = append(removed, list[i])
			list = slices.Delete(list, i, i+1)
			if err := f.become(a, list, func(t *text) { t.remove(a, i) }); err != nil {
				return nil, err
			}
			list = slices.Clone(list)
		}
	}
	return removed, nil
}

// AddPreset names a preset. A preset that is named already stays in its place.
func (f *File) AddPreset(name string) error {
	if err := checkPreset(name); err != nil || slices.Contains(f.Presets, name) {
		return err
	}
	return f.setPresets(append(slices.Clone(f.Presets), name))
}

// RemovePreset removes the name of a preset. If it is not named, the error is of class
// [spec.ErrNotFound].
func (f *File) RemovePreset(name string) error {
	i := slices.Index(f.Presets, name)
	if i < 0 {
		return spec.Errorf(spec.ErrNotFound, "preset %s is not named here", ascii.Quote(name)).
			WithHint("bothy policy ls tells where rules come from")
	}
	return f.setPresets(slices.Delete(slices.Clone(f.Presets), i, i+1))
}

func (f *File) setPresets(names []string) error {
	next, value := f.Block, ""
	if next.Presets = nil; len(names) > 0 {
		next.Presets, value = names, "["+strings.Join(names, ", ")+"]"
	}
	return f.turn(next, func(t *text) { t.set("presets", value) })
}

// SetDefault sets the action for everything that no rule is about.
func (f *File) SetDefault(a Action) error {
	if a != Allow && a != Deny {
		return spec.Errorf(spec.ErrUsage, "a default allows or denies")
	}
	next := f.Block
	next.Default = a
	return f.turn(next, func(t *text) { t.set("default", a.String()) })
}

// Put makes one unconditional rule the only one for its target: it removes the other
// unconditional rules with the same target, and keeps those with conditions.
func (f *File) Put(r Rule) error {
	_, err := f.remove(func(o *Rule) bool { return o.Target == r.Target && o.HTTP.none() && !o.HTTP.WebSocket })
	if err != nil {
		return err
	}
	return f.Add(r)
}

func (f *File) rules(a Action) []Rule {
	if a == Allow {
		return f.Allow
	}
	return f.Deny
}
