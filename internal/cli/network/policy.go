package network

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/lint"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "policy", Short: "What sandboxes may reach on the network",
		Long: "Rules for the network: of all sandboxes or, with --sandbox, of one. Nothing is\nallowed that no rule allows. A change applies at once, also to what runs.",
	}
	c.AddCommand(a.policyAddCommand(policy.Allow), a.policyAddCommand(policy.Deny), a.policyLsCommand(), a.policyRmCommand(), a.policyCheckCommand(),
		a.policyLogCommand(), a.policyLearnCommand(), a.policyLintCommand(), a.presetCommand())
	return c
}

// scope is the --sandbox flag of the policy commands.
type scope struct{ name string }

func (s *scope) addFlags(a *app, c *cobra.Command) {
	c.Flags().StringVar(&s.name, "sandbox", "", "only for this sandbox (default: for all)")
	cmdline.CompleteFlag(c, "sandbox", a.SandboxNames)
}

// openScope returns the engine and the sandbox, or nil for all sandboxes.
func (s *scope) openScope(a *app) (*engine.Engine, *spec.Sandbox, error) {
	if s.name != "" {
		return a.Existing(s.name)
	}
	e, err := a.Engine()
	return e, nil, err
}

// inForce is open, and also returns the rules in force.
func (s *scope) inForce(a *app) (*engine.Engine, *spec.Sandbox, *policy.Policy, error) {
	e, sb, err := s.openScope(a)
	if err != nil {
		return nil, nil, nil, err
	}
	p, err := e.Rules().Policy(sb)
	return e, sb, p, err
}

// addFlags are the flags of policy allow and deny.
type addFlags struct {
	scope
	conditionFlags
	presets []string
	life    time.Duration
	why     string
}

func (a *app) policyAddCommand(action policy.Action) *cobra.Command {
	var f addFlags
	c := &cobra.Command{
		Use:   action.String() + " TARGET...",
		Short: "Add rules that " + action.String(),
		Example: "  bothy policy " + action.String() + " api.example.com:443\n  bothy policy " + action.String() +
			" '*.example.com' --sandbox shell-app --for 1h",
		RunE: func(cmd *cobra.Command, args []string) error {
			rules, err := f.parseRules(action, cmd, args)
			if err != nil {
				return err
			}
			e, sb, err := f.openScope(a)
			if err != nil {
				return err
			}
			var loosed []policy.Rule
			err = e.Rules().Edit(cmd.Context(), sb, func(file *policyfile.File) error {
				for _, name := range f.presets {
					if err := file.AddPreset(name); err != nil {
						return cmdline.Usage(err)
					}
				}
				loosed = nil
				for _, r := range rules {
					if old, ok := file.Bound(r); ok && r.MaxUpload == 0 {
						loosed = append(loosed, old)
					}
					if err := file.Add(r); err != nil {
						return err
					}
				}
				return nil
			})
			if err == nil {
				for _, r := range loosed {
					a.Note("the rule was %q before: now it lets out everything, for it has no --max-upload", r.String())
				}
				a.WarnRules(e, sb, rules)
			}
			return err
		},
	}
	f.scope.addFlags(a, c)
	c.Flags().StringArrayVar(&f.presets, "preset", nil, "name a preset instead of a target, for deny only none; repeatable")
	cmdline.CompleteFlag(c, "preset", cmdline.CompletePresets)
	f.conditionFlags.addFlags(c, action)
	c.Flags().DurationVar(&f.life, "for", 0, "end the rule after this time, e.g. 1h")
	c.Flags().StringVar(&f.why, "why", "", "a note, shown with decisions")
	return c
}

// parseRules returns the rules of the arguments and flags. It ignores no flag silently.
func (f *addFlags) parseRules(action policy.Action, cmd *cobra.Command, args []string) ([]policy.Rule, error) {
	if len(args) == 0 && len(f.presets) == 0 {
		return nil, cmdline.AtLeast(1, "a target: a host, a pattern, an address or a CIDR, with :PORT or without")(cmd, args)
	}
	if err := f.checkPresets(action, cmd); err != nil {
		return nil, err
	}
	if f.life <= 0 && cmd.Flags().Changed("for") {
		return nil, spec.Errorf(spec.ErrUsage, "--for %s is not a time", f.life).WithHint("write it as 30m or 1h; leave it out for a rule that stays")
	}
	conditions, err := f.conditions(cmd)
	if err != nil {
		return nil, err
	}
	upload, err := f.upload(cmd)
	if err != nil {
		return nil, err
	}
	var rules []policy.Rule
	for _, text := range args {
		r, err := policy.ParseRule(action, text)
		if err != nil {
			return nil, err
		}
		r.HTTP, r.MaxUpload, r.Why = conditions, upload, f.why
		r.Inspect, r.Passthrough = f.inspect, f.passthrough
		if f.life > 0 {
			r.Until = time.Now().Add(f.life).UTC().Truncate(time.Second)
		}
		if err := r.Check(); err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// checkPresets refuses flags that do not go with a preset.
func (f *addFlags) checkPresets(action policy.Action, cmd *cobra.Command) error {
	for _, name := range f.presets {
		denies := name == "none"
		switch {
		case denies && action == policy.Allow:
			return spec.Errorf(spec.ErrUsage, "preset none denies everything").WithHint("write bothy policy deny --preset none")
		case !denies && action == policy.Deny:
			return spec.Errorf(spec.ErrUsage, "preset %q is not a list of denied targets", name).
				WithHint("bothy policy rm --preset NAME takes one out; --preset none denies everything")
		}
	}
	for _, name := range append([]string{"for", "why"}, conditionNames...) {
		if len(f.presets) > 0 && cmd.Flags().Changed(name) {
			return spec.Errorf(spec.ErrUsage, "--%s does not go with --preset", name).WithHint("a preset has its own conditions and stays")
		}
	}
	return nil
}

func (a *app) policyLsCommand() *cobra.Command {
	var s scope
	c := &cobra.Command{
		Use: "ls", Short: "List the rules in force", Args: cmdline.Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			e, sb, p, err := s.inForce(a)
			if err != nil {
				return err
			}
			sent, err := sentBy(e, sb, p)
			if err != nil {
				return err
			}
			now, rows := time.Now(), []row{}
			for _, r := range p.Rules() {
				rows = append(rows, row{r.ID(), r.Source.String(), r.Action.String(), r.String(), sent.sentByRule(&r), !r.Live(now)})
			}
			return a.printRules(rows, p)
		},
	}
	s.addFlags(a, c)
	return a.JSONFlag(c)
}

// row is one rule in a list.
type row struct {
	ID     string `json:"id"`
	Source string `json:"source"`
	Action string `json:"action"`
	Rule   string `json:"rule"`
	// Uploaded is how many bytes the sandbox has sent under rules with this target. It is nil if
	// this rule has no limit.
	Uploaded *int64 `json:"uploaded_bytes,omitempty"`
	// Ended says that the time of the rule is over. It goes with the next change of the rules.
	Ended bool `json:"ended,omitempty"`
}

func (a *app) printRules(rows []row, p *policy.Policy) error {
	if a.JSON {
		return a.PrintJSON(map[string]any{"rules": rows, "default": p.Default().String(), "inspect_all": p.InspectsAll()})
	}
	w := a.Table()
	fmt.Fprintln(w, "ID\tFROM\tACTION\tRULE")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.ID, r.Source, r.Action, console.Printable(r.Rule)+sentText(r.Uploaded)+endedText(r.Ended))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if p.InspectsAll() {
		fmt.Fprintln(a.Out, "looked into: all HTTP")
	}
	_, err := fmt.Fprintf(a.Out, "everything else: %s\n", p.Default())
	return err
}

// endedText marks a rule whose time is over.
func endedText(ended bool) string {
	if ended {
		return ", ended"
	}
	return ""
}

func (a *app) policyRmCommand() *cobra.Command {
	var s scope
	var ids, presets []string
	c := &cobra.Command{
		Use: "rm ID|TARGET...", Short: "Remove rules",
		RunE: func(cmd *cobra.Command, args []string) error {
			args = append(args, ids...)
			if len(args)+len(presets) == 0 {
				return cmdline.AtLeast(1, "rules: by the ID that ls shows, or by target")(cmd, args)
			}
			e, sb, err := s.openScope(a)
			if err != nil {
				return err
			}
			return e.Rules().Edit(cmd.Context(), sb, func(f *policyfile.File) error {
				for _, arg := range args {
					if _, err := f.Remove(arg); err != nil {
						return ofAnother(e, sb, arg, err)
					}
				}
				for _, name := range presets {
					if err := f.RemovePreset(name); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	s.addFlags(a, c)
	c.Flags().StringArrayVar(&ids, "id", nil, "a rule by its ID; repeatable")
	c.Flags().StringArrayVar(&presets, "preset", nil, "take out a preset instead of a rule; repeatable")
	cmdline.CompleteFlag(c, "preset", cmdline.CompletePresets)
	return c
}

// ofAnother explains an error for a rule that policy ls shows, but that is not in the layer to
// remove it from.
func ofAnother(e *engine.Engine, sb *spec.Sandbox, idOrTarget string, err error) error {
	p, unread := e.Rules().Policy(sb)
	if unread != nil {
		return err
	}
	for _, r := range p.Rules() {
		if r.ID() != idOrTarget && r.Text != idOrTarget {
			continue
		}
		hint := "it is a rule of all sandboxes: leave --sandbox out"
		switch {
		case r.Source.Layer == policy.LayerProject:
			hint = "it is in the project's bothy.yaml"
		case r.Source.Preset != "":
			hint = "it comes with preset " + r.Source.Preset + ": bothy policy rm --preset " + r.Source.Preset + ", with --sandbox of one sandbox"
		}
		return &spec.Error{Err: err, Hint: hint}
	}
	return err
}

func (a *app) policyCheckCommand() *cobra.Command {
	var s scope
	var method string
	var calls []string
	c := &cobra.Command{
		Use: "check HOST[:PORT]|URL", Short: "Tell whether something is allowed, and why",
		Args: cmdline.Exactly(1, "a host, an address or a URL"),
		RunE: func(_ *cobra.Command, args []string) error {
			e, sb, p, err := s.inForce(a)
			if err != nil {
				return err
			}
			if answer := netrules.AnswerHost(sb, args[0]); answer != nil {
				return a.printHostAnswer(answer)
			}
			q, err := policy.ParseCall(args[0], method, calls, time.Now())
			if err != nil {
				return err
			}
			x := p.Explain(q)
			if modelmock.Answers(sb, q.Name) {
				fmt.Fprintf(a.Out, "allowed: %s: the sandbox's mock answers it, whatever the rules\n", console.Printable(x.Target))
				return nil
			}
			sent, err := sentBy(e, sb, p)
			if err != nil {
				return err
			}
			fmt.Fprint(a.Out, console.Printable(strings.TrimRight(sent.explain(&x, s.name), "\n"))+"\n")
			if !x.Decision.Allowed() {
				return &spec.Exited{Code: spec.ExitDenied}
			}
			return nil
		},
	}
	s.addFlags(a, c)
	c.Flags().StringVar(&method, "method", "", "of the request, for a URL (default GET; of ssh: fetch or push)")
	c.Flags().StringArrayVar(&calls, "rpc", nil, `what its body calls by JSON-RPC, e.g. "tools/call search_docs" (then the default is POST); repeatable`)
	cmdline.CompleteFlag(c, "rpc", cmdline.OneOf(usualCalls...))
	return c
}

func (a *app) printHostAnswer(answer *netrules.HostAnswer) error {
	fmt.Fprintln(a.Out, console.Printable(strings.Join(answer.Lines, "\n  ")))
	if !answer.Allowed {
		return &spec.Exited{Code: spec.ExitDenied}
	}
	return nil
}

func (a *app) policyLintCommand() *cobra.Command {
	var s scope
	c := &cobra.Command{
		Use: "lint", Short: "Look for rules that may not do what they seem to", Args: cmdline.Exactly(0, "no arguments"),
		Long: "Looks for rules that say less or more than they seem to. Each finding is a line;\nif there are any the exit code is 1.",
		RunE: func(*cobra.Command, []string) error {
			e, sb, err := s.openScope(a)
			if err != nil {
				return err
			}
			inputs, err := e.Rules().Layers(sb)
			if err != nil {
				return err
			}
			findings, err := lint.Rules(time.Now(), inputs...)
			for _, f := range findings {
				fmt.Fprintln(a.Out, console.Printable(f.String()))
			}
			if err == nil && len(findings) > 0 {
				return &spec.Exited{Code: spec.ExitError}
			}
			return err
		},
	}
	s.addFlags(a, c)
	return c
}
