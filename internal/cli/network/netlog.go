package network

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// logFlags choose the network records to show, and the form.
type logFlags struct {
	limit         int
	follow, quiet bool
	since         string
	verdict       string
	names, hosts  []string
}

func (a *app) policyLogCommand() *cobra.Command {
	f := &logFlags{}
	c := &cobra.Command{
		Use: "log [SANDBOX]", Short: "Show refused and allowed connections",
		Long: `Shows, for all sandboxes or one, whom they tried to reach: how often, with what
result, why, and for a refused one the command that would allow it. With
--follow, every decision and every connection that opens and ends, as it comes.
bothy logs --source network SANDBOX shows single records of the past.`,
		ValidArgsFunction: a.OneSandbox,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cmdline.Exactly(1, "one sandbox, or none for all")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := f.filter(cmd)
			if err != nil {
				return err
			}
			e, err := a.Engine()
			if err != nil {
				return err
			}
			if f.follow {
				return a.followNetwork(cmd.Context(), e, args, filter)
			}
			return a.sumUpNetwork(e, args, filter, f)
		},
	}
	fs := c.Flags()
	fs.IntVar(&f.limit, "limit", 100, "show so many hosts, those seen last (0: all)")
	fs.BoolVarP(&f.follow, "follow", "f", false, "print every record as it comes")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "the entries alone: no heading, no advice")
	fs.StringVar(&f.since, "since", "", "only what happened since: a time ago (1h) or a point in time (2026-12-31T18:00:00Z)")
	fs.StringVar(&f.verdict, "verdict", "", "only this: allow, deny or error")
	fs.StringArrayVar(&f.names, "name", nil, "only hosts that match, as in rules: '**.example.com', 10.0.0.0/8; repeatable")
	fs.StringArrayVar(&f.hosts, "host", nil, "the same as --name")
	_ = fs.MarkHidden("host") // the flag exists, so this cannot fail
	cmdline.CompleteFlag(c, "verdict", cmdline.OneOf(spec.VerdictAllow, spec.VerdictDeny, spec.VerdictError))
	return a.JSONFlag(c)
}

// recordFilter selects records.
type recordFilter struct {
	since   time.Time
	verdict string
	targets []target.Target
}

// filter parses the flags. A flag with a value that selects nothing is an error.
func (f *logFlags) filter(cmd *cobra.Command) (recordFilter, error) {
	var r recordFilter
	changed := cmd.Flags().Changed
	verdicts := []string{spec.VerdictAllow, spec.VerdictDeny, spec.VerdictError}
	switch {
	case changed("verdict") && !slices.Contains(verdicts, f.verdict):
		return r, spec.Errorf(spec.ErrUsage, "--verdict cannot be %q", f.verdict).WithHint("it is one of %s", strings.Join(verdicts, ", "))
	case f.limit < 0:
		return r, spec.Errorf(spec.ErrUsage, "--limit %d is negative", f.limit)
	case f.follow && (changed("limit") || changed("quiet")):
		return r, spec.Errorf(spec.ErrUsage, "--follow does not go with --limit or --quiet")
	}
	r.verdict = f.verdict
	for _, text := range slices.Concat(f.names, f.hosts) {
		t, err := target.Parse(text)
		if err != nil {
			return r, &spec.Error{Class: spec.ErrUsage, Op: "--name", Err: err, Hint: spec.Hint(err)}
		}
		r.targets = append(r.targets, t)
	}
	if f.follow {
		r.since = time.Now()
	}
	if changed("since") {
		at, err := PointInTime(f.since, time.Now())
		if err != nil {
			return r, err
		}
		r.since = at
	}
	return r, nil
}

// PointInTime parses a time ago or a point in time.
func PointInTime(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	return time.Time{}, spec.Errorf(spec.ErrUsage, "--since %q is not a time", s).WithHint("write 30m or 1h, or a point in time as 2026-12-31T18:00:00Z")
}

func (f *recordFilter) matches(r *spec.NetworkRecord) bool {
	return !r.Time.Before(f.since) && f.matchesRecord(r)
}

// matchesRecord is matches without the time.
func (f *recordFilter) matchesRecord(r *spec.NetworkRecord) bool {
	matches := func(t target.Target) bool { return t.Matches(r.Name, r.Addr, r.Port) }
	return (f.verdict == "" || r.Verdict == f.verdict) && (len(f.targets) == 0 || slices.ContainsFunc(f.targets, matches))
}

// traffic sums up a sandbox's attempts to reach one host, with one result.
type traffic struct {
	Host     string    `json:"host"` // with its port, if any
	Sandbox  string    `json:"vm_name"`
	Protocol string    `json:"proxy_type,omitempty"`
	Verdict  string    `json:"verdict"`
	Rule     string    `json:"rule,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Since    time.Time `json:"since"`
	Last     time.Time `json:"last_seen"`
	Count    int64     `json:"count_since"` // names looked up, and connections
	Requests int64     `json:"requests,omitempty"`
	Up       int64     `json:"up_bytes"`
	Down     int64     `json:"down_bytes"`
	Suggest  string    `json:"suggest,omitempty"`
	Guessed  bool      `json:"guessed,omitempty"`
}

// tally sums records up.
type tally struct {
	filter recordFilter
	rows   map[trafficKey]*traffic
	open   map[openFlow]*spec.NetworkRecord
	crowds map[crowd]*crowded
}

// trafficKey identifies a row. Refusals for different reasons have different rows, because each
// takes another command to allow it. So have failures that a command would fix.
type trafficKey struct{ sandbox, host, verdict, reason string }

// readRecord adds the next record of a log.
func (t *tally) readRecord(sandbox string, r *spec.NetworkRecord) {
	if !t.trackFlow(sandbox, r) {
		t.add(sandbox, r)
	}
}

func (t *tally) add(sandbox string, r *spec.NetworkRecord) {
	if r.Event != spec.NetworkPolicy && t.filter.matches(r) {
		t.countRecord(sandbox, r)
	}
}

// countRecord adds a record to its row.
func (t *tally) countRecord(sandbox string, r *spec.NetworkRecord) {
	key := trafficKey{sandbox: sandbox, host: records.Host(r), verdict: r.Verdict}
	if r.Verdict == spec.VerdictDeny || r.Suggest != "" {
		key.reason = r.Reason
	}
	row := t.rows[key]
	if row == nil {
		row = &traffic{Host: key.host, Sandbox: sandbox, Verdict: r.Verdict, Since: r.Time}
		t.rows[key] = row
	}
	row.updateRow(r)
	switch r.Event {
	case spec.NetworkRequest:
		row.Requests += max(r.Count, 1)
	case spec.NetworkSecret, spec.NetworkRenewal:
	case spec.NetworkSuppressed:
		row.Count += r.Suppressed
		row.Up, row.Down = row.Up+r.Up, row.Down+r.Down
	default:
		row.Count += max(r.Count, 1)
		row.Up, row.Down = row.Up+r.Up, row.Down+r.Down
	}
}

// updateRow updates the row from a record, unless the row has a later one.
func (row *traffic) updateRow(r *spec.NetworkRecord) {
	if r.Time.Before(row.Since) {
		row.Since = r.Time
	}
	if r.Time.Before(row.Last) {
		return
	}
	row.Protocol, row.Rule, row.Reason, row.Last = r.Protocol, r.Rule, r.Reason, r.Time
	row.Suggest, row.Guessed = r.Suggest, r.Guessed
}

// sorted returns refused traffic, then failed, then allowed, each with the latest first. It returns
// only the latest limit rows overall, and the number of the others.
func (t *tally) sorted(limit int) (rows []*traffic, more int) {
	for _, r := range t.rows {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b *traffic) int {
		if c := b.Last.Compare(a.Last); c != 0 {
			return c
		}
		return strings.Compare(a.Sandbox+" "+a.Host+" "+a.Reason, b.Sandbox+" "+b.Host+" "+b.Reason)
	})
	if limit > 0 && len(rows) > limit {
		rows, more = rows[:limit], len(rows)-limit
	}
	order := []string{spec.VerdictDeny, spec.VerdictError, spec.VerdictAllow}
	slices.SortStableFunc(rows, func(a, b *traffic) int { return slices.Index(order, a.Verdict) - slices.Index(order, b.Verdict) })
	return rows, more
}

// networkLogs returns the sandboxes whose logs to read.
func networkLogs(e *engine.Engine, names []string) ([]*spec.Sandbox, error) {
	if len(names) > 0 {
		sb, err := e.Find(names[0])
		return []*spec.Sandbox{sb}, err
	}
	return e.Store.List()
}

// sumUpNetwork prints the aggregate view.
func (a *app) sumUpNetwork(e *engine.Engine, names []string, filter recordFilter, f *logFlags) error {
	list, err := networkLogs(e, names)
	if err != nil {
		return err
	}
	t := newTally(filter)
	for _, sb := range list {
		if err := records.Network(e.Store, sb, func(r *spec.NetworkRecord) { t.readRecord(sb.Name, r) }); err != nil {
			return err
		}
	}
	t.addOpen()
	rows, more := t.sorted(f.limit)
	if more > 0 {
		defer a.Note("%d more are not shown; --limit 0 shows all", more)
	}
	if a.JSON {
		blocked, allowed := []*traffic{}, []*traffic{}
		for _, r := range rows {
			if r.Verdict == spec.VerdictDeny {
				blocked = append(blocked, r)
			} else {
				allowed = append(allowed, r)
			}
		}
		return a.PrintJSON(map[string]any{"blocked_hosts": blocked, "allowed_hosts": allowed})
	}
	return a.printTraffic(rows, f.quiet)
}

func (a *app) printTraffic(rows []*traffic, quiet bool) error {
	w := a.Table()
	if !quiet {
		fmt.Fprintln(w, "SANDBOX\tHOST\tVERDICT\tCOUNT\tREQUESTS\tUP\tDOWN\tLAST SEEN\tWHY")
	}
	var commands []string
	guessed := false
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", term.Sanitize(r.Sandbox), term.Sanitize(r.Host), term.Sanitize(r.Verdict),
			r.Count, r.Requests, spec.FormatSize(r.Up), spec.FormatSize(r.Down), r.Last.Local().Format(time.RFC3339), term.Sanitize(r.Reason))
		if c := term.Sanitize(r.Suggest); c != "" && !slices.Contains(commands, c) {
			commands = append(commands, c)
		}
		guessed = guessed || r.Guessed
	}
	if guessed {
		commands = append(commands, "# of names without a port "+policy.OnlyLookedUp)
	}
	if err := w.Flush(); err != nil || quiet || len(commands) == 0 {
		return err
	}
	_, err := fmt.Fprintf(a.Out, "\nwhat would allow it:\n  %s\n", strings.Join(commands, "\n  "))
	return err
}

// newSandboxes is how often new sandboxes are looked for while following all.
const newSandboxes = time.Second

// followNetwork prints records as they come, until a signal arrives.
func (a *app) followNetwork(ctx context.Context, e *engine.Engine, names []string, filter recordFilter) error {
	asked, stop := signal.NotifyContext(ctx, os.Interrupt, unix.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(asked)
	var mu sync.Mutex
	show := func(sb *spec.Sandbox) func(audit.Event) error {
		return func(ev audit.Event) error {
			var r spec.NetworkRecord
			if ev.Decode(&r) != nil || !filter.matches(&r) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			return a.printRecord(sb.Name, ev, &r)
		}
	}
	known := map[string]bool{}
	var wg sync.WaitGroup
	defer func() { cancel(nil); wg.Wait() }()
	for {
		list, err := networkLogs(e, names)
		if err != nil {
			return err
		}
		for _, sb := range list {
			if known[sb.ID] {
				continue
			}
			known[sb.ID] = true
			wg.Go(func() {
				if err := audit.Follow(ctx, e.Store.Sandbox(sb.ID).NetworkLog(), show(sb)); err != nil && ctx.Err() == nil {
					cancel(err)
				}
			})
		}
		select {
		case <-ctx.Done():
			if asked.Err() != nil {
				return nil
			}
			return context.Cause(ctx)
		case <-time.After(newSandboxes):
		}
	}
}

// printRecord prints a record on one line.
func (a *app) printRecord(sandbox string, ev audit.Event, r *spec.NetworkRecord) error {
	if a.JSON {
		_, err := fmt.Fprintf(a.Out, "%s\n", term.EscapeJSON(ev.Line))
		return err
	}
	words := []string{r.Time.Local().Format(time.RFC3339), sandbox, r.Event, r.State, r.Verdict}
	if r.Event == spec.NetworkPolicy {
		words = append(words, fmt.Sprintf("generation %d of the rules", r.Generation))
	} else {
		words = append(words, records.Host(r))
	}
	words = append(words, r.Method, r.Path, r.RPC)
	if r.Status != 0 {
		words = append(words, fmt.Sprint(r.Status))
	}
	if n := max(r.Count, r.Suppressed); n > 0 {
		words = append(words, countTimes(n))
	}
	if r.Up+r.Down > 0 {
		words = append(words, fmt.Sprintf("up %s down %s", spec.FormatSize(r.Up), spec.FormatSize(r.Down)))
	}
	if r.Duration > 0 {
		words = append(words, fmt.Sprintf("%d ms", r.Duration))
	}
	if r.Secret != "" {
		words = append(words, "secret "+r.Secret)
	}
	line := strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
	if r.Reason != "" {
		line += ": " + r.Reason
	}
	if r.Suggest != "" {
		line += "; " + r.Suggest
	}
	_, err := fmt.Fprintln(a.Out, term.Sanitize(line))
	return err
}
