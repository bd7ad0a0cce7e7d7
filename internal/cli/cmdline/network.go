package cmdline

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/spec"
)

// NetworkFlags are the network rules of a new sandbox.
type NetworkFlags struct {
	Presets, Allow, Deny    []string
	DockerAllow, DockerDeny []string // the same under sbx's names
}

// Add adds the flags to a command.
func (f *NetworkFlags) Add(c *cobra.Command) {
	fs := c.Flags()
	fs.StringArrayVar(&f.Presets, "preset", nil, "let the sandbox reach what a preset lists, e.g. npm; repeatable")
	fs.StringArrayVar(&f.Allow, "allow", nil, "let the sandbox reach a host, pattern, address or CIDR, with :PORT or without; repeatable")
	fs.StringArrayVar(&f.Deny, "deny", nil, "never let it reach this, whatever else allows it; repeatable")
	fs.StringArrayVar(&f.DockerAllow, "allow-network", nil, "the same as --allow")
	fs.StringArrayVar(&f.DockerDeny, "deny-network", nil, "the same as --deny")
	for _, name := range []string{"allow-network", "deny-network"} {
		_ = fs.MarkHidden(name) // the flag exists, so this cannot fail
	}
	CompleteFlag(c, "preset", CompletePresets)
}

// Block returns the rules of the flags.
func (f *NetworkFlags) Block() (policy.Block, error) {
	var req spec.Request
	f.fillRequest(&req)
	return provision.ParseRules(&req)
}

// fillRequest puts the rules of the flags into a request.
func (f *NetworkFlags) fillRequest(req *spec.Request) {
	req.Presets, req.Allow, req.Deny = f.Lists()
}

// Lists returns the words of the flags.
func (f *NetworkFlags) Lists() (presets, allow, deny []string) {
	return f.Presets, slices.Concat(f.Allow, f.DockerAllow), slices.Concat(f.Deny, f.DockerDeny)
}

// Usage turns an error in a flag's value into one of class usage, including an unknown preset.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &spec.Error{Class: spec.ErrUsage, Err: err, Hint: spec.Hint(err)}
}

// WarnRules prints which of the new rules have no effect. It warns when the rules are written, before the
// user wonders why they do not work.
func (a *App) WarnRules(e *engine.Engine, sb *spec.Sandbox, rules []policy.Rule) {
	for _, note := range provision.IneffectiveRules(e, sb, rules) {
		a.Note("%s", note)
	}
}

// CompletePresets completes the name of a preset.
func CompletePresets(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
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
