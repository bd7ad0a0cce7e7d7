// Package policyfile reads, edits and writes policy.yaml. Edits keep comments and the author's formatting.
package policyfile

import (
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/internal/policy/document"
	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/spec"
)

// File is a policy.yaml: a versioned block that the user and the policy commands
// both edit. Rules keep their order, and comments stay where they are.
type File struct {
	policy.Block
	text []byte // as read or last edited; empty if newly made
}

// Decode reads a policy.yaml:
//
//	version: 1
//	default: deny
//	presets: [npm]
//	allow: ["*.example.com:443"]
//	deny: ["**.evil.example"]
//
// Every key but version may be missing, but a key that is present must have a value. Errors are of class
// [spec.ErrUsage] and name the line. The error for a file of a newer version is [spec.ErrNewer].
func Decode(data []byte) (*File, error) {
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
	b, err := policy.ReadBlock(n, policy.FileBlock, "version")
	if err != nil {
		return nil, err
	}
	if i < 0 {
		return nil, spec.Errorf(spec.ErrUsage, "version is missing").WithHint("write version: %d", spec.Version)
	}
	return &File{Block: b, text: slices.Clone(document.Unmarked(data))}, nil
}

// Add appends a rule to its list. It replaces a rule that says the same, so that a new expiry or note
// can be set. The error is of class [spec.ErrConflict] if a rule of the file contradicts it word for
// word: with both in place the deny would win, and one of them is a mistake.
func (f *File) Add(r policy.Rule) error {
	r = stored(r)
	if err := r.Check(); err != nil {
		return err
	}
	opposite := r
	opposite.Action = policy.Allow + policy.Deny - r.Action
	for _, o := range f.rulesOf(opposite.Action) {
		if o.Key() == opposite.Key() {
			return spec.Errorf(spec.ErrConflict, "the same file has %s %s", o.Action, o.Target).
				WithHint("remove it first: bothy policy rm --id %s", o.ID())
		}
	}
	list := slices.Clone(f.rulesOf(r.Action))
	i := slices.IndexFunc(list, func(o policy.Rule) bool { return o.Key() == r.Key() })
	if i >= 0 {
		list[i] = r
		return f.changeList(r.Action, list, func(t *text) { t.replace(r.Action, i, r) })
	}
	return f.changeList(r.Action, append(list, r), func(t *text) { t.append(r) })
}

// Bound returns the rule that Add would replace, if that has a budget.
func (f *File) Bound(r policy.Rule) (policy.Rule, bool) {
	r = stored(r)
	for _, o := range f.rulesOf(r.Action) {
		if o.Key() == r.Key() && o.MaxUpload > 0 {
			return o, true
		}
	}
	return policy.Rule{}, false
}

// stored returns the rule as it comes back from a file.
func stored(r policy.Rule) policy.Rule {
	r.Source = policy.Source{}
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
func (f *File) Remove(idOrTarget string) ([]policy.Rule, error) {
	removed, err := f.remove(func(r *policy.Rule) bool { return r.ID() == idOrTarget })
	if err != nil || len(removed) > 0 {
		return removed, err
	}
	if t, err := target.Parse(idOrTarget); err == nil {
		if removed, err = f.remove(func(r *policy.Rule) bool { return r.Target == t }); err != nil || len(removed) > 0 {
			return removed, err
		}
	}
	return nil, spec.Errorf(spec.ErrNotFound, "no rule %s", ascii.Quote(target.WithoutUser(idOrTarget))).
		WithHint("bothy policy ls shows the rules and their IDs")
}

// Prune removes the rules that have ended.
func (f *File) Prune(now time.Time) ([]policy.Rule, error) {
	return f.remove(func(r *policy.Rule) bool { return !r.Live(now) })
}

func (f *File) remove(match func(*policy.Rule) bool) ([]policy.Rule, error) {
	var removed []policy.Rule
	for _, a := range []policy.Action{policy.Allow, policy.Deny} {
		list := slices.Clone(f.rulesOf(a))
		for i := len(list) - 1; i >= 0; i-- {
			if !match(&list[i]) {
				continue
			}
			removed = append(removed, list[i])
			list = slices.Delete(list, i, i+1)
			if err := f.changeList(a, list, func(t *text) { t.remove(a, i) }); err != nil {
				return nil, err
			}
			list = slices.Clone(list)
		}
	}
	return removed, nil
}

// AddPreset names a preset. A preset that is named already stays in its place.
func (f *File) AddPreset(name string) error {
	if err := policy.CheckPreset(name); err != nil || slices.Contains(f.Presets, name) {
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
	return f.changeBlock(next, func(t *text) { t.setValue("presets", value) })
}

// SetDefault sets the action for everything that no rule is about.
func (f *File) SetDefault(a policy.Action) error {
	if a != policy.Allow && a != policy.Deny {
		return spec.Errorf(spec.ErrUsage, "a default allows or denies")
	}
	next := f.Block
	next.Default = a
	return f.changeBlock(next, func(t *text) { t.setValue("default", a.String()) })
}

// Put makes one unconditional rule the only one for its target: it removes the other
// unconditional rules with the same target, and keeps those with conditions.
func (f *File) Put(r policy.Rule) error {
	_, err := f.remove(func(o *policy.Rule) bool { return o.Target == r.Target && o.HTTP.IsEmpty() && !o.HTTP.WebSocket })
	if err != nil {
		return err
	}
	return f.Add(r)
}

func (f *File) rulesOf(a policy.Action) []policy.Rule {
	if a == policy.Allow {
		return f.Allow
	}
	return f.Deny
}

// checkVersion reads the version of a document.
func checkVersion(n *document.Node, key string) error {
	var v int64
	if err := n.ReadNumber(key, &v); err != nil {
		return err
	}
	if err := spec.CheckVersion("this file", int(v), spec.Version); err != nil {
		return err
	}
	if v != spec.Version {
		return n.Fail("version %d is not known", v).WithHint("this bothy reads version %d", spec.Version)
	}
	return nil
}
