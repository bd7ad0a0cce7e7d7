package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/command"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// load is a running sandbox in top.
type load struct {
	Name      string      `json:"name"`
	Usage     spec.Usage  `json:"usage"`
	CPU       float64     `json:"cpu_percent"` // of one processor, since the last look; 0 at the first
	Processes []wire.Task `json:"processes,omitempty"`
	Flows     []spec.Flow `json:"flows"`
}

func (a *app) topCommand() *command.Command {
	var once, flows bool
	c := &command.Command{
		Use: "top [SANDBOX]", Short: "Show what running sandboxes use, or the processes of one",
		Long:     "Shows what running sandboxes use, or the processes of one; with --flows the\nconnections to the outside that are open.",
		Complete: a.oneSandbox,
		RunE: func(cmd *command.Command, args []string) error {
			e, err := a.engine()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM)
			defer stop()
			live := term.IsTerminal(a.stdout) && !once && !a.json
			before := map[string]load{}
			for last := time.Now(); ; {
				loads, err := measure(ctx, e, args, before, time.Since(last))
				if err != nil {
					return err
				}
				last = time.Now()
				if live {
					fmt.Fprint(a.stdout, "\x1b[H\x1b[2J")
				}
				show := func() error { return a.showLoads(loads, len(args) > 0) }
				if flows && !a.json {
					show = func() error { return a.showFlows(loads, time.Now()) }
				}
				if err := show(); err != nil || !live {
					return err
				}
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(2 * time.Second):
				}
			}
		},
	}
	c.Flags().BoolVar(&flows, "flows", false, "show open connections instead")
	c.Flags().BoolVar(&once, "once", false, "print once instead of refreshing")
	return a.jsonFlag(c)
}

func measure(ctx context.Context, e *engine.Engine, names []string, before map[string]load, since time.Duration) ([]load, error) {
	var list []*spec.Sandbox
	if len(names) > 0 {
		sb, err := e.Find(names[0])
		if err != nil {
			return nil, err
		}
		list = append(list, sb)
	} else {
		infos, err := e.List()
		if err != nil {
			return nil, err
		}
		for _, i := range infos {
			list = append(list, i.Spec)
		}
	}
	loads := []load{}
	for _, sb := range list {
		st, err := e.Inside(ctx, sb)
		if err != nil {
			if len(names) > 0 {
				return nil, err
			}
			continue // it does not run
		}
		l := load{Name: sb.Name, Usage: st.Usage, Processes: st.Tasks, Flows: st.Flows}
		if l.Flows == nil {
			l.Flows = []spec.Flow{}
		}
		if b, ok := before[sb.ID]; ok && since > 0 {
			l.CPU = 100 * (l.Usage.CPUSeconds - b.Usage.CPUSeconds) / since.Seconds()
		}
		before[sb.ID] = l
		loads = append(loads, l)
	}
	return loads, nil
}

func (a *app) showLoads(loads []load, processes bool) error {
	if a.json {
		return a.printJSON(map[string]any{"sandboxes": loads})
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	if processes {
		fmt.Fprintln(w, "PID\tPPID\tUID\tTIME\tCOMMAND")
		for _, t := range loads[0].Processes {
			fmt.Fprintf(w, "%d\t%d\t%d\t%.2fs\t%s\n", t.PID, t.PPID, t.UID, t.CPUSeconds, term.Sanitize(t.Command))
		}
		return w.Flush()
	}
	fmt.Fprintln(w, "SANDBOX\tCPU%\tTIME\tMEMORY\tPROCS\tSESSIONS")
	for _, l := range loads {
		fmt.Fprintf(w, "%s\t%.1f\t%.2fs\t%s\t%d\t%d\n", l.Name, l.CPU, l.Usage.CPUSeconds,
			formatSize(l.Usage.Memory), l.Usage.Processes, l.Usage.Sessions)
	}
	return w.Flush()
}

// showFlows prints the open connections, those with most bytes first.
func (a *app) showFlows(loads []load, now time.Time) error {
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SANDBOX\tHOST\tADDRESS\tUP\tDOWN\tOPEN FOR")
	for _, l := range loads {
		slices.SortStableFunc(l.Flows, func(a, b spec.Flow) int { return cmp.Compare(b.Up+b.Down, a.Up+a.Down) })
		for _, f := range l.Flows {
			r := spec.NetworkRecord{Name: f.Name, Addr: f.Addr, Port: f.Port, Direction: f.Direction}
			address := "-"
			if f.Addr.IsValid() {
				address = f.Addr.String()
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, term.Sanitize(recordHost(&r)), address,
				formatSize(f.Up), formatSize(f.Down), now.Sub(f.Began).Round(time.Second))
		}
	}
	return w.Flush()
}
