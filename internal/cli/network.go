package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/provision"
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

// block returns the rules of the flags.
func (f *networkFlags) block() (policy.Block, error) {
	return provision.ParseRules(&spec.Request{
		Presets: f.presets, Allow: slices.Concat(f.allow, f.dockerAllow), Deny: slices.Concat(f.deny, f.dockerDeny),
	})
}

// usage turns an error in a flag's value into one of class usage, including an unknown preset.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &spec.Error{Class: spec.ErrUsage, Err: err, Hint: spec.Hint(err)}
}

// warnRules prints which of the new rules have no effect. It warns when the rules are written, before the
// user wonders why they do not work.
func (a *app) warnRules(e *engine.Engine, sb *spec.Sandbox, rules []policy.Rule) {
	for _, note := range provision.IneffectiveRules(e, sb, rules) {
		a.Note("%s", note)
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
