package policy

import (
	"slices"

	"github.com/bothy-dev/bothy/spec"
)

// Layer is where rules come from.
type Layer uint8

// The layers. Their order is that in which rules are shown; in a decision the
// only difference is that Project narrows.
const (
	LayerUser    Layer = iota + 1 // the user's policy.yaml: every sandbox
	LayerPreset                   // a list that comes with Bothy
	LayerSandbox                  // of one sandbox
	LayerCommand                  // given with one command
	LayerProject                  // bothy.yaml of the project, which nobody trusts
)

func (l Layer) String() string {
	switch l {
	case LayerUser:
		return "user"
	case LayerPreset:
		return "preset"
	case LayerSandbox:
		return "sandbox"
	case LayerCommand:
		return "command"
	case LayerProject:
		return "project"
	}
	return "unknown"
}

// Source is the layer of a rule and, for one that comes from a preset, its
// name. A project's presets stay in the project's layer.
type Source struct {
	Layer  Layer
	Preset string
}

// String gives "user", "preset:npm", "project preset:npm".
func (s Source) String() string {
	switch {
	case s.Preset == "":
		return s.Layer.String()
	case s.Layer == LayerPreset:
		return "preset:" + s.Preset
	}
	return s.Layer.String() + " preset:" + s.Preset
}

// Block is what a policy file and a network: block say. The zero Block says
// nothing.
type Block struct {
	// Default is for what no rule is about; unset says nothing. Any layer that
	// says deny wins, and if none says allow it is deny.
	Default Action
	// InspectAll asks for all HTTP to be looked into, not only where a rule
	// needs it.
	InspectAll bool
	Presets    []string
	Allow      []Rule
	Deny       []Rule
}

// Input is one layer for Compile.
type Input struct {
	Layer Layer
	Block Block
}

// Check refuses a block with a wrong rule, a rule twice or an unknown preset.
func (b *Block) Check() error {
	for _, l := range []struct {
		action Action
		rules  []Rule
	}{{Allow, b.Allow}, {Deny, b.Deny}} {
		if err := checkRules(l.action, l.rules); err != nil {
			return err
		}
	}
	for i, name := range b.Presets {
		if slices.Contains(b.Presets[:i], name) {
			return spec.Errorf(spec.ErrUsage, "preset %s stands twice", name)
		}
		if err := checkPreset(name); err != nil {
			return err
		}
		if name == presetNone && len(b.Presets) > 1 {
			return spec.Errorf(spec.ErrUsage, "preset none and other presets exclude each other")
		}
	}
	return nil
}

func checkRules(a Action, rules []Rule) error {
	seen := make(map[string]bool, len(rules))
	for i := range rules {
		r := &rules[i]
		if r.Action != a {
			return spec.Errorf(spec.ErrUsage, "rule %q stands in the list of rules that %s", r.Target, a)
		}
		if err := r.Check(); err != nil {
			return err
		}
		key := r.key()
		if seen[key] {
			return spec.Errorf(spec.ErrUsage, "rule %q stands twice in the list of rules that %s", r.Target, a)
		}
		seen[key] = true
	}
	return nil
}

// checkProject refuses what would widen: a repository must never widen its own
// sandbox, and one that tries is told so instead of being half obeyed.
func (b *Block) checkProject() error {
	fail := func(what string) error {
		return spec.Errorf(spec.ErrUsage, "%s in a project's file: a project can only narrow", what).
			WithHint("the user's policy.yaml, or a flag, can allow more")
	}
	if b.Default == Allow {
		return fail("default: allow")
	}
	if slices.Contains(b.Presets, presetOpen) {
		return fail("preset open")
	}
	for i := range b.Allow {
		if b.Allow[i].Passthrough {
			return fail("passthrough")
		}
		if b.Allow[i].MaxUpload != 0 {
			return spec.Errorf(spec.ErrUsage, "max_upload in a project's file: what a project lists is allowed by other rules, whose budgets count").
				WithHint("the user's policy.yaml, or a flag, can have it")
		}
	}
	return nil
}
