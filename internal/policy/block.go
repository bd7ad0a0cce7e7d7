package policy

import (
	"slices"

	"github.com/bothy-dev/bothy/internal/policy/document"
	"github.com/bothy-dev/bothy/spec"
)

// Layer is the origin of rules.
type Layer uint8

// The layers, in the order in which rules are shown. In a decision the only difference is that Project
// narrows.
const (
	LayerUser    Layer = iota + 1 // the user's policy.yaml: every sandbox
	LayerPreset                   // a list that comes with Bothy
	LayerSandbox                  // of one sandbox
	LayerCommand                  // given with one command
	LayerProject                  // bothy.yaml of the project, which is not trusted
)

func (l Layer) String() string {
	names := [...]string{"unknown", "user", "preset", "sandbox", "command", "project"}
	if int(l) < len(names) {
		return names[l]
	}
	return names[0]
}

// Source is the layer of a rule and, if the rule comes from a preset, the preset's name. A project's
// presets stay in the project's layer.
type Source struct {
	Layer  Layer
	Preset string
}

// String returns "user", "preset:npm" or "project preset:npm".
func (s Source) String() string {
	switch {
	case s.Preset == "":
		return s.Layer.String()
	case s.Layer == LayerPreset:
		return "preset:" + s.Preset
	}
	return s.Layer.String() + " preset:" + s.Preset
}

// Block is the content of a policy file or of a network: block. The zero Block is empty.
type Block struct {
	// Default is the action for everything that no rule is about; it may be unset. It is deny if any
	// layer says deny, or if none says allow.
	Default Action
	// InspectAll asks to inspect all HTTP, not only where a rule needs it.
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
func (b *Block) Check() error { return b.checkAt(nowhere) }

// entries returns the place of the i-th entry under a key of a block.
type entries func(key string, i int) *document.Node

// nowhere is the entries function of a block that was not read from a file.
func nowhere(string, int) *document.Node { return &document.Node{} }

func (b *Block) checkAt(at entries) error {
	if err := checkRules(Allow, b.Allow, at); err != nil {
		return err
	}
	if err := checkRules(Deny, b.Deny, at); err != nil {
		return err
	}
	for i, name := range b.Presets {
		if err := b.checkPreset(i, name); err != nil {
			return at("presets", i).Locate(err)
		}
	}
	return nil
}

func (b *Block) checkPreset(i int, name string) error {
	if slices.Contains(b.Presets[:i], name) {
		return spec.Errorf(spec.ErrUsage, "preset %s stands twice", name)
	}
	if err := CheckPreset(name); err != nil {
		return err
	}
	if name == presetNone && len(b.Presets) > 1 {
		return spec.Errorf(spec.ErrUsage, "preset none and other presets exclude each other")
	}
	return nil
}

func checkRules(a Action, rules []Rule, at entries) error {
	seen := make(map[string]bool, len(rules))
	for i := range rules {
		if err := checkRule(a, &rules[i], seen); err != nil {
			return at(a.String(), i).Locate(err)
		}
	}
	return nil
}

// checkRule checks a rule in its list, and adds it to those seen.
func checkRule(a Action, r *Rule, seen map[string]bool) error {
	if r.Action != a {
		return spec.Errorf(spec.ErrUsage, "rule %q is in the list of rules that %s", r.Target, a)
	}
	if err := r.Check(); err != nil {
		return err
	}
	key := r.Key()
	if seen[key] {
		return spec.Errorf(spec.ErrUsage, "rule %q stands twice in the list of rules that %s", r.Target, a)
	}
	seen[key] = true
	return nil
}

// checkProject refuses a block that would widen: a repository must never widen its own
// sandbox. If it tries, the user gets an error, and the block is not obeyed in part.
func (b *Block) checkProject(at entries) error {
	fail := func(n *document.Node, what, why string) error {
		return n.Fail("%s in a project's file: %s", what, why).WithHint("the user's policy.yaml, or a flag, can have it")
	}
	const narrows = "a project can only narrow"
	if b.Default == Allow {
		return fail(at("default", 0), "default: allow", narrows)
	}
	if i := slices.Index(b.Presets, presetOpen); i >= 0 {
		return fail(at("presets", i), "preset open", narrows)
	}
	for i := range b.Allow {
		if b.Allow[i].Passthrough {
			return fail(at("allow", i), "passthrough", narrows)
		}
		if b.Allow[i].MaxUpload != 0 {
			return fail(at("allow", i), "max_upload", "what a project lists is allowed by other rules, whose budgets count")
		}
	}
	return nil
}
