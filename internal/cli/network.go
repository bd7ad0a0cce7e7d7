package cli

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// networkFlags are the network rules of a new sandbox.
type networkFlags struct {
	presets, allow, deny    []string
	dockerAllow, dockerDeny []string // the same under sbx's names
}

func (f *networkFlags) add(c *cobra.Command) {
	fs := c.Flags()
	fs.StringArrayVar(&f.presets, "preset", nil, "let the sandbox reach what a preset lists, e.g. npm; repeatable")
	fs.StringArrayVar(&f.allow, "allow", nil, "let the sandbox reach a host, pattern, address or CIDR, with :PORT or without; repeatable")
	fs.StringArrayVar(&f.deny, "deny", nil, "never let it reach this, whatever else allows it; repeatable")
	fs.StringArrayVar(&f.dockerAllow, "allow-network", nil, "the same as --allow")
	fs.StringArrayVar(&f.dockerDeny, "deny-network", nil, "the same as --deny")
	for _, name := range []string{"allow-network", "deny-network"} {
		_ = fs.MarkHidden(name) // the flag exists, so this cannot fail
	}
	completeFlag(c, "preset", completePresets)
}

// block returns the rules of the flags. Contradictory rules are an error, because one would cancel
// another silently.
func (f *networkFlags) block() (policy.Block, error) {
	b := policy.Block{Presets: f.presets}
	for _, l := range []struct {
		action policy.Action
		into   *[]policy.Rule
		lists  [][]string
	}{
		{policy.Allow, &b.Allow, [][]string{f.allow, f.dockerAllow}},
		{policy.Deny, &b.Deny, [][]string{f.deny, f.dockerDeny}},
	} {
		for _, list := range l.lists {
			for _, text := range list {
				r, err := policy.ParseRule(l.action, text)
				if err != nil {
					return b, err
				}
				*l.into = append(*l.into, r)
			}
		}
	}
	found, err := policy.Contradictions(time.Now(), policy.Input{Layer: policy.LayerSandbox, Block: b})
	if err == nil && len(found) > 0 {
		err = contradiction(found[0])
	}
	return b, usage(err)
}

// usage turns an error in a flag's value into one of class usage, including an unknown preset.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &spec.Error{Class: spec.ErrUsage, Err: err, Hint: spec.Hint(err)}
}

func contradiction(c policy.Contradiction) error {
	return spec.Errorf(spec.ErrUsage, "%s", c.String()).WithHint("a rule that denies wins over any that allows; leave one of them out")
}

// warnRules prints which of the new rules have no effect, or remove the effect of others. It warns
// when the rules are written, before the user wonders why they do not work.
func (a *app) warnRules(e *engine.Engine, sb *spec.Sandbox, rules []policy.Rule) {
	if len(rules) == 0 {
		return
	}
	inputs, err := e.PolicyLayers(sb)
	if err != nil {
		a.Note("the rules cannot be judged together with the others: %s", console.Printable(err.Error()))
		return
	}
	found, err := policy.Contradictions(time.Now(), inputs...)
	if err != nil {
		return // each rule was checked before
	}
	for _, c := range found {
		isNew := func(r policy.Rule) bool { return r.ID() == c.Allow.ID() || r.ID() == c.Deny.ID() }
		if slices.ContainsFunc(rules, isNew) {
			a.Note("%s", console.Printable(c.String()))
		}
	}
}

// completePresets completes the name of a preset.
func completePresets(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var list []string
	for _, name := range policy.PresetNames() {
		p, err := policy.FindPreset(name)
		if err != nil {
			continue
		}
		list = append(list, name+"\t"+p.About)
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}
