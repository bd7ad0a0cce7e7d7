package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/doctor"
	"github.com/bothy-dev/bothy/internal/document"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) doctorCommand() *cobra.Command {
	var ask bool
	c := &cobra.Command{
		Use: "doctor [--ask] [AGENT]", Short: "Check whether this host can run sandboxes, and say what to mend",
		Long: `Checks whether this host can run sandboxes. With AGENT also whether that is
installed, its credentials, and whether the hosts it needs can be reached:
connections are made to them, over which nothing is sent. With --ask the agent is given
a tiny job in a sandbox of its own: the one sure sign, which costs a request.`,
		Args: cmdline.AtMost(1, "an agent"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.KnownAgents(cmd, args, word)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var of *spec.Agent
			if ask && len(args) == 0 {
				return spec.Errorf(spec.ErrUsage, "--ask needs an agent").WithHint("usage: %s", cmd.UseLine())
			}
			if len(args) > 0 {
				var err error
				if of, err = provision.Agents().Called(args[0]); err != nil {
					return err
				}
			}
			dir, _ := store.Dir()
			checks := doctor.Run(cmd.Context(), dir)
			if e, err := a.Engine(); of != nil && err == nil {
				more, err := examine(cmd.Context(), e, of)
				if err != nil {
					return err
				}
				checks = append(checks, more...)
				if ask {
					ctx, release := cmdline.Interruptible(cmd.Context())
					defer release()
					checks = append(checks, a.tryOut(ctx, of))
					if ctx.Err() != nil {
						return context.Cause(ctx)
					}
				}
			}
			return a.findings(checks)
		},
	}
	c.Flags().BoolVar(&ask, "ask", false, "have AGENT do a tiny job, which costs a request")
	return a.JSONFlag(c)
}

// tinyJob is the prompt of tryOut.
const tinyJob = "Answer with the single word: ready"

// tryOut runs an agent for a tiny job.
func (a *app) tryOut(ctx context.Context, of *spec.Agent) doctor.Check {
	c := doctor.Check{Name: "request", Result: doctor.Warn}
	if of.Headless == nil {
		c.Detail = "it is not known how " + of.Title + " works without a terminal: no description of it says so"
		return c
	}
	dir, err := os.MkdirTemp("", "bothy-doctor-")
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	defer os.RemoveAll(dir)
	a.Note("asking %s ...", of.Title)
	argv, stdin := agent.Headless(of, tinyJob, "", "")
	return doctor.Ask(ctx, doctor.Job{
		Args: append([]string{"run", "--rm", of.Name, ".", "--"}, argv...), Stdin: stdin, Dir: dir, Judge: judgeEvents(of),
	})
}

// judgeEvents returns a function that reads from an agent's events whether it has done a job: few agents say
// so by their exit status. It returns nil if the agent's events are not described.
func judgeEvents(of *spec.Agent) func([]byte, int) (bool, string) {
	if of.Headless.Events == nil {
		return nil
	}
	return func(stdout []byte, status int) (bool, string) {
		rules, err := transcript.ForOutput(of.Headless)
		if err != nil {
			return false, err.Error()
		}
		var d transcript.Digest
		r := transcript.NewReader(rules, func(ev spec.TranscriptEvent) error { d.Add(ev); return nil })
		_, err = r.Write(stdout)
		if err = errors.Join(err, r.Close()); err != nil {
			return false, err.Error()
		}
		said := ""
		if d.End != nil {
			said = d.End.Text
		}
		return d.Verdict(status) == spec.VerdictOK, said
	}
}

// findings prints the results of checks. It returns an error if the host cannot run sandboxes.
func (a *app) findings(checks []doctor.Check) error {
	failed := 0
	for _, c := range checks {
		if c.Result == doctor.Fail {
			failed++
		}
		if !a.JSON {
			fmt.Fprintf(a.Out, "%-5s %-22s %s\n", c.Result, c.Name, console.Printable(c.Detail))
			if c.Fix != "" {
				fmt.Fprintf(a.Out, "      %-22s fix: %s\n", "", console.Printable(c.Fix))
			}
		}
	}
	if a.JSON {
		if err := a.PrintJSON(document.DoctorOf(checks)); err != nil {
			return err
		}
	}
	if failed > 0 {
		return spec.Errorf(nil, "%s failed: sandboxes cannot run here", cmdline.Counted(failed, "check"))
	}
	return nil
}

// examine checks an agent's needs.
func examine(ctx context.Context, e *engine.Engine, of *spec.Agent) ([]doctor.Check, error) {
	hosts, err := netrules.PresetHosts(e.Credentials().Values, of)
	if err != nil {
		return nil, err
	}
	return append([]doctor.Check{programCheck(e, of), credentialCheck(e, of)}, doctor.Hosts(ctx, os.Environ(), hosts)...), nil
}

// programCheck reports which program a new sandbox of an agent runs.
func programCheck(e *engine.Engine, of *spec.Agent) doctor.Check {
	c := doctor.Check{Name: "agent " + of.Name, Result: doctor.OK}
	version, err := e.Programs().InstalledVersion(of)
	switch {
	case err != nil:
		c.Result, c.Detail, c.Fix = doctor.Warn, err.Error(), spec.Hint(err)
	case version != "":
		c.Detail = fmt.Sprintf("%s %s is installed", of.Title, version)
	case of.Install != nil:
		c.Detail = of.Title + " is not installed; the first bothy run " + of.Name + " does it"
	case agentprogram.OnHost(of):
		c.Detail = of.Title + " is a program of this host that sandboxes see"
	default:
		c.Result, c.Detail = doctor.Warn, of.Program+" is not a program of this host that sandboxes see"
		c.Fix = agent.HowToGet(of, "SANDBOX")
	}
	return c
}

// credentialCheck reports which credential an agent would log in with.
func credentialCheck(e *engine.Engine, of *spec.Agent) doctor.Check {
	c := doctor.Check{Name: "credential", Result: doctor.OK}
	found, err := e.Credentials().Values.Find(of)
	switch {
	case err != nil:
		c.Result, c.Detail, c.Fix = doctor.Warn, err.Error(), spec.Hint(err)
	case found.Unfit != "":
		c.Result, c.Detail = doctor.Warn, found.Where+" cannot be lent: "+found.Unfit
	case found.Secret != "":
		c.Detail = found.Where + " is lent to its sandboxes" + found.Besides
	case len(of.Credentials) == 0 && of.Login == nil:
		c.Detail = of.Title + " logs in by itself, in each sandbox"
	default:
		c.Result, c.Detail = doctor.Warn, of.Title+" has none"
		c.Fix = strings.Join(provision.WaysToLogIn(of), ", or ")
	}
	return c
}
