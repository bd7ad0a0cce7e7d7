package network

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) networkCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "network", Short: "The network rules and log in docker's words",
		Long: "What docker sandbox network does, with Bothy's rules underneath: bothy policy says\nmore. What is denied stays denied, whatever narrower rule allows it; a name at its\nliteral address is, if its TLS client asks for it.",
	}
	c.AddCommand(a.proxyCommand(), a.policyLogCommand())
	return c
}

// proxyFlags are the flags of docker sandbox network proxy.
type proxyFlags struct {
	policy                             string
	allowHost, blockHost, bypassHost   []string
	allowCIDR, blockCIDR, bypassedCIDR []string
}

func (a *app) proxyCommand() *cobra.Command { return a.proxyCommandWith(&proxyFlags{}) }

func (a *app) proxyCommandWith(f *proxyFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "proxy SANDBOX",
		Short: "Change what a sandbox may reach",
		Long: `Changes the sandbox's own rules; they hold at once and stay. Here a wildcard is as
docker has it: *.example.com is any depth below, * is everything. A host or range
has the rule it was given last. Only --policy changes what happens to the rest.`,
		Example: "  bothy network proxy NAME --policy deny --allow-host api.example.com:443 --allow-host '*.example.org'",
		Args:    cmdline.Exactly(1, "a sandbox"), ValidArgsFunction: a.OneSandbox,
		RunE: func(cmd *cobra.Command, args []string) error {
			rules, def, err := f.parse(cmd)
			if err != nil {
				return err
			}
			e, sb, err := a.Existing(args[0])
			if err != nil {
				return err
			}
			if err := e.Rules().Edit(cmd.Context(), sb, func(file *policyfile.File) error { return applyFlags(file, rules, def) }); err != nil {
				return err
			}
			a.WarnRules(e, sb, rules)
			if _, _, p, err := (&scope{name: args[0]}).inForce(a); err == nil && def != 0 && p.Default() != def {
				a.Note("another layer says default: deny, so --policy %s does not count", def)
			}
			return nil
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.policy, "policy", "", "what happens to what no rule is about: allow or deny")
	fs.StringArrayVar(&f.allowHost, "allow-host", nil, "allow a host, pattern or address, with :PORT or without; repeatable")
	fs.StringArrayVar(&f.blockHost, "block-host", nil, "deny one; repeatable")
	fs.StringArrayVar(&f.bypassHost, "bypass-host", nil, "allow one, and never look into its connections; repeatable")
	fs.StringArrayVar(&f.allowCIDR, "allow-cidr", nil, "allow a range of addresses, and neither deny nor bypass it; repeatable")
	fs.StringArrayVar(&f.blockCIDR, "block-cidr", nil, "deny one; repeatable")
	fs.StringArrayVar(&f.bypassedCIDR, "bypass-cidr", nil, "allow one, and never look into its connections; repeatable")
	cmdline.CompleteFlag(c, "policy", cmdline.OneOf("allow", "deny"))
	return c
}

// applyFlags changes the policy file. A new rule replaces an existing rule for the same target.
func applyFlags(f *policyfile.File, rules []policy.Rule, def policy.Action) error {
	for _, r := range rules {
		if err := f.Put(r); err != nil {
			return err
		}
	}
	if def != 0 {
		return f.SetDefault(def)
	}
	return nil
}

// parse reads all flags, and refuses contradictions. It changes nothing unless all flags are valid.
func (f *proxyFlags) parse(cmd *cobra.Command) (rules []policy.Rule, def policy.Action, err error) {
	if cmd.Flags().Changed("policy") {
		def = map[string]policy.Action{"allow": policy.Allow, "deny": policy.Deny}[f.policy]
		if def == 0 {
			return nil, 0, spec.Errorf(spec.ErrUsage, "--policy cannot be %q", f.policy).WithHint("it is allow or deny")
		}
	}
	for _, l := range []struct {
		flag   string
		action policy.Action
		cidr   bool
		bypass bool
		values []string
	}{
		{"allow-host", policy.Allow, false, false, f.allowHost},
		{"block-host", policy.Deny, false, false, f.blockHost},
		{"bypass-host", policy.Allow, false, true, f.bypassHost},
		{"allow-cidr", policy.Allow, true, false, f.allowCIDR},
		{"block-cidr", policy.Deny, true, false, f.blockCIDR},
		{"bypass-cidr", policy.Allow, true, true, f.bypassedCIDR},
	} {
		for _, value := range l.values {
			r, err := proxyRule(l.action, value, l.cidr)
			if err != nil {
				return nil, 0, &spec.Error{Class: spec.ErrUsage, Op: "--" + l.flag, Err: err, Hint: spec.Hint(err)}
			}
			r.Passthrough = l.bypass
			i := slices.IndexFunc(rules, func(o policy.Rule) bool { return o.Target == r.Target })
			switch {
			case i < 0:
				rules = append(rules, r)
			case rules[i].ID() != r.ID():
				return nil, 0, spec.Errorf(spec.ErrUsage, "--%s %s: another flag says otherwise about it", l.flag, value).WithHint("leave one of them out")
			}
		}
	}
	if len(rules) == 0 && def == 0 {
		return nil, 0, spec.Errorf(spec.ErrUsage, "nothing to change").WithHint("%s --help lists the flags", cmd.CommandPath())
	}
	return rules, def, contradictory(rules)
}

// contradictory refuses rules if one denies all that another allows.
func contradictory(rules []policy.Rule) error {
	f := cmdline.NetworkFlags{}
	for _, r := range rules {
		if r.Action == policy.Allow {
			f.Allow = append(f.Allow, r.Target.String())
		} else {
			f.Deny = append(f.Deny, r.Target.String())
		}
	}
	_, err := f.Block()
	return err
}

// proxyRule parses one value of a flag.
func proxyRule(action policy.Action, value string, cidr bool) (policy.Rule, error) {
	text := value
	if !cidr {
		text = fromDocker(value)
	}
	r, err := policy.ParseRule(action, text)
	if err != nil {
		return r, err
	}
	isAddress := r.Target.Kind == target.Range
	switch {
	case cidr && !isAddress:
		return r, spec.Errorf(spec.ErrUsage, "%q is not a range of addresses", value).WithHint("write a host with the flags that end in -host")
	case !cidr && strings.Contains(value, "/"):
		return r, spec.Errorf(spec.ErrUsage, "%q is a range, not a host", value).WithHint("write a range with the flags that end in -cidr")
	}
	return r, nil
}

// fromDocker converts a docker pattern to ours: docker's star matches any depth.
func fromDocker(pattern string) string {
	if pattern == "*" || strings.HasPrefix(pattern, "*:") || strings.HasPrefix(pattern, "*.") {
		return "*" + pattern
	}
	return pattern
}
