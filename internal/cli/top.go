package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// load is a running sandbox in top.
type load struct {
	Name      string      `json:"name"`
	Usage     spec.Usage  `json:"usage"`
	CPU       float64     `json:"cpu_percent"` // of one processor, since the last refresh; 0 at the first
	Processes []wire.Task `json:"processes,omitempty"`
	Flows     []spec.Flow `json:"flows"` // the busiest of the open ones
	Open      int         `json:"open"`
	Error     string      `json:"error,omitempty"` // why the other fields are empty
}

func (a *app) topCommand() *cobra.Command {
	var once, flows bool
	c := &cobra.Command{
		Use: "top [SANDBOX]", Short: "Show what running sandboxes use, or the processes of one",
		Long:              "Shows what running sandboxes use, or the processes of one; with --flows the\nconnections to the outside that are open. On a terminal it refreshes until you\npress q or Ctrl-C.",
		ValidArgsFunction: a.OneSandbox,
		RunE: a.OnEngine(func(cmd *cobra.Command, args []string, e *engine.Engine) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT) // the terminal's settings come back
			defer stop()
			live := term.IsTerminal(a.Out) && !once && !a.JSON
			if live && term.IsTerminal(a.In) {
				unwatch, err := term.WatchKeys(a.In, func(key byte) {
					if key == 'q' || key == 'Q' {
						stop()
					}
				})
				if err != nil {
					return err
				}
				defer unwatch()
			}
			before := map[string]load{}
			for last := time.Now(); ; {
				loads, unheard, err := measure(ctx, e, args, before, time.Since(last))
				if ctx.Err() != nil {
					return nil
				}
				if err != nil {
					return err
				}
				last = time.Now()
				if live {
					fmt.Fprint(a.Out, "\x1b[H\x1b[2J")
				}
				show := func() error { return a.showLoads(loads, len(args) > 0) }
				if flows && !a.JSON {
					show = func() error { return a.showFlows(loads, time.Now()) }
				}
				if err := show(); err != nil || !live {
					return cmp.Or(err, unheard)
				}
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(2 * time.Second):
				}
			}
		}),
	}
	c.Flags().BoolVar(&flows, "flows", false, "show open connections instead")
	c.Flags().BoolVar(&once, "once", false, "print once instead of refreshing")
	return a.JSONFlag(c)
}

// measure reads the load of running sandboxes. If one does not answer, its load and the second
// result hold the error.
func measure(ctx context.Context, e *engine.Engine, names []string, before map[string]load, since time.Duration) (loads []load, unheard, err error) {
	list, err := measured(e, names)
	if err != nil {
		return nil, nil, err
	}
	loads = []load{}
	for _, sb := range list {
		st, err := e.Keepers().Inside(ctx, sb)
		switch {
		case err != nil && len(names) > 0:
			return nil, nil, err
		case err != nil && e.Status(sb).State != spec.Running:
			continue
		case err != nil:
			loads = append(loads, load{Name: sb.Name, Flows: []spec.Flow{}, Error: err.Error()})
			unheard = cmp.Or(unheard, err)
			continue
		}
		l := load{Name: sb.Name, Usage: st.Usage, Processes: st.Tasks, Flows: st.Flows, Open: st.Open}
		if l.Flows == nil {
			l.Flows = []spec.Flow{}
		}
		if b, ok := before[sb.ID]; ok && since > 0 {
			l.CPU = 100 * (l.Usage.CPUSeconds - b.Usage.CPUSeconds) / since.Seconds()
		}
		before[sb.ID] = l
		loads = append(loads, l)
	}
	return loads, unheard, nil
}

// measured returns the sandboxes to look at, running or not: the named one, or all.
func measured(e *engine.Engine, names []string) ([]*spec.Sandbox, error) {
	if len(names) > 0 {
		sb, err := e.Find(names[0])
		return []*spec.Sandbox{sb}, err
	}
	infos, err := e.List()
	var list []*spec.Sandbox
	for _, i := range infos {
		list = append(list, i.Spec)
	}
	return list, err
}

func (a *app) showLoads(loads []load, processes bool) error {
	if a.JSON {
		return a.PrintJSON(map[string]any{"sandboxes": loads})
	}
	w := a.Table()
	if processes {
		fmt.Fprintln(w, "PID\tPPID\tUID\tTIME\tCOMMAND")
		for _, t := range loads[0].Processes {
			fmt.Fprintf(w, "%d\t%d\t%d\t%.2fs\t%s\n", t.PID, t.PPID, t.UID, t.CPUSeconds, term.Sanitize(t.Command))
		}
		if left := loads[0].Usage.Processes - len(loads[0].Processes); left > 0 {
			fmt.Fprintf(w, "and %d more that computed less\n", left)
		}
		return w.Flush()
	}
	fmt.Fprintln(w, "SANDBOX\tCPU%\tTIME\tMEMORY\tPROCS\tSESSIONS")
	for _, l := range loads {
		if l.Error != "" {
			fmt.Fprintf(w, "%s\t-\t-\t-\t-\t-\n", l.Name)
			continue
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.2fs\t%s\t%d\t%d\n", l.Name, l.CPU, l.Usage.CPUSeconds,
			spec.FormatSize(l.Usage.Memory), l.Usage.Processes, l.Usage.Sessions)
	}
	return w.Flush()
}

// showFlows prints the open connections, busiest first.
func (a *app) showFlows(loads []load, now time.Time) error {
	w := a.Table()
	fmt.Fprintln(w, "SANDBOX\tHOST\tADDRESS\tUP\tDOWN\tOPEN FOR")
	for _, l := range loads {
		slices.SortStableFunc(l.Flows, func(a, b spec.Flow) int { return cmp.Compare(b.Up+b.Down, a.Up+a.Down) })
		for _, f := range l.Flows {
			r := spec.NetworkRecord{Name: f.Name, Addr: f.Addr, Port: f.Port, Direction: f.Direction}
			address := "-"
			if f.Addr.IsValid() {
				address = f.Addr.String()
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, term.Sanitize(records.Host(&r)), address,
				spec.FormatSize(f.Up), spec.FormatSize(f.Down), now.Sub(f.Began).Round(time.Second))
		}
		if left := l.Open - len(l.Flows); left > 0 {
			fmt.Fprintf(w, "%s\tand %d more that carried less\n", l.Name, left)
		}
	}
	return w.Flush()
}
