package system

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/cli/network"
	"github.com/bothy-dev/bothy/internal/rootfs"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) systemCommand() *cobra.Command {
	c := &cobra.Command{Use: "system", Short: "What Bothy takes of the disk, how to have it back, and whether it is whole"}
	c.AddCommand(a.systemDfCommand(), a.systemPruneCommand(), a.systemVerifyCommand())
	return c
}

// diskKinds are the rows of df in order: the name for people, and the command that frees the unused
// part.
var diskKinds = []struct{ kind, title, frees string }{
	{rootfs.KindSandbox, "Sandboxes", "bothy prune"},
	{rootfs.KindTemplate, "Templates", "bothy system prune --templates"},
	{rootfs.KindImage, "Images", "bothy system prune --templates"},
	{rootfs.KindBuild, "Builds", "bothy system prune"},
	{rootfs.KindAgent, "Agents", "bothy system prune"},
	{rootfs.KindLeftover, "Leftovers", "bothy system prune"},
	{rootfs.KindCache, "Cache", ""},
}

// diskItem is an item in JSON.
type diskItem struct {
	Kind      string     `json:"kind"`
	Name      string     `json:"name"`
	Agent     string     `json:"agent,omitempty"`
	Bytes     int64      `json:"bytes"`
	Used      *time.Time `json:"last_used_at,omitempty"`
	Running   bool       `json:"running,omitempty"`
	Sandboxes []string   `json:"sandboxes,omitempty"`
	Kept      string     `json:"kept_because,omitempty"`
}

func shownItem(it rootfs.Item) diskItem {
	d := diskItem{Kind: it.Kind, Name: it.Name, Agent: it.Agent, Bytes: it.Bytes, Running: it.Running, Sandboxes: it.Holders, Kept: it.Kept}
	if !it.Used.IsZero() {
		d.Used = &it.Used
	}
	return d
}

func shownItems(list []rootfs.Item) []diskItem {
	out := make([]diskItem, 0, len(list))
	for _, it := range list {
		out = append(out, shownItem(it))
	}
	return out
}

func (a *app) systemDfCommand() *cobra.Command {
	var verbose bool
	c := &cobra.Command{
		Use: "df", Short: "Show what takes room on the disk",
		Long: "Shows what sandboxes, templates, images, builds, installed agents, leftovers of what broke off\nand the cache take of the disk, and how much of it bothy system prune could free. What several\nshare counts once. Your own directories are not in it.",
		Args: cmdline.Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			d, err := a.showDiskUse()
			if err != nil {
				return err
			}
			switch {
			case a.JSON:
				out := map[string]any{"items": shownItems(d.Items), "unread": d.Unread}
				if d.Limit > 0 {
					out["bytes"], out["store_limit"] = d.Taken, d.Limit
				}
				return a.PrintJSON(out)
			case verbose:
				return a.diskItems(d.Items)
			}
			return a.diskSums(d)
		},
	}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "each by itself")
	return a.JSONFlag(c)
}

// showDiskUse measures the disk usage, and prints what could not be measured.
func (a *app) showDiskUse() (rootfs.Usage, error) {
	e, err := a.Engine()
	if err != nil {
		return rootfs.Usage{}, err
	}
	d, err := e.Disk().Measure()
	if err == nil && d.Unread > 0 {
		a.Note("%s could not be looked into: their contents are not counted", cmdline.Counted(d.Unread, "directory"))
	}
	return d, err
}

func (a *app) diskSums(d rootfs.Usage) error {
	w := a.Table()
	fmt.Fprintln(w, "WHAT\tTOTAL\tIN USE\tSIZE\tRECLAIMABLE\tFREED BY")
	var kinds []string
	for _, row := range diskKinds {
		kinds = append(kinds, row.kind)
	}
	all := d.Chosen(rootfs.Pruning{Kinds: kinds})
	for _, row := range diskKinds {
		total, size := sumOf(d.Items, row.kind)
		idle, free := sumOf(all, row.kind)
		by := ""
		if free > 0 {
			by = row.frees
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\n", row.title, total, total-idle, spec.FormatSize(size), spec.FormatSize(free), cmdline.Dash(by))
	}
	if d.Limit > 0 {
		fmt.Fprintf(w, "\nWith what belongs to none of these, %s of %s (store_limit)\n", spec.FormatSize(d.Taken), spec.FormatSize(d.Limit))
	}
	return w.Flush()
}

// sumOf returns the number of items of a kind, and their size.
func sumOf(list []rootfs.Item, kind string) (n int, bytes int64) {
	for _, it := range list {
		if it.Kind == kind {
			n, bytes = n+1, bytes+it.Bytes
		}
	}
	return n, bytes
}

func (a *app) diskItems(list []rootfs.Item) error {
	w := a.Table()
	fmt.Fprintln(w, "KIND\tNAME\tSIZE\tLAST USED\tKEPT BECAUSE")
	for _, it := range list {
		used := "-"
		if !it.Used.IsZero() {
			used = it.Used.Local().Format(time.DateTime)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", it.Kind, console.Printable(it.Name), spec.FormatSize(it.Bytes), used, cmdline.Dash(console.Printable(it.Kept)))
	}
	return w.Flush()
}

// pruneFlags are the flags of prune.
type pruneFlags struct {
	kinds                     []string
	sandboxes, templates, all bool // more kinds
	dry, force                bool
	filters                   []string
}

// filterHelp explains the filters of prune.
const filterHelp = `Filters narrow it down, all of them have to fit:

  until=72h         not used for so long, or since a time: 2026-11-01T00:00:00Z
  name=PATTERN      called so: work-*
  agent=NAME        of this agent`

// pruneCommand removes stopped sandboxes only.
func (a *app) pruneCommand() *cobra.Command {
	f := pruneFlags{kinds: []string{rootfs.KindSandbox}}
	c := &cobra.Command{
		Use: "prune", Short: "Remove stopped sandboxes",
		Long: `Removes sandboxes that are stopped and were not used for two minutes, with their homes. Your
own directories stay, and so do sandboxes with work that is neither applied nor fetched, broken
ones, and those of loops and flows that can be gone on with.
` + filterHelp,
		Example: "  bothy prune --dry-run\n  bothy prune --filter until=720h",
		Args:    cmdline.Exactly(0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.prune(cmd, &f) },
	}
	return a.pruneFlags(c, &f)
}

func (a *app) pruneFlags(c *cobra.Command, f *pruneFlags) *cobra.Command {
	fl := c.Flags()
	fl.StringArrayVar(&f.filters, "filter", nil, "KEY=VALUE: remove only what fits; repeatable")
	fl.BoolVarP(&f.dry, "dry-run", "n", false, "only show what would be removed")
	fl.BoolVarP(&f.force, "force", "f", false, "do not ask")
	return a.JSONFlag(c)
}

func (a *app) systemPruneCommand() *cobra.Command {
	f := pruneFlags{kinds: []string{rootfs.KindBuild, rootfs.KindAgent, rootfs.KindLeftover}}
	c := &cobra.Command{
		Use: "prune", Short: "Remove unused files",
		Long: `Removes installed versions of agents that no sandbox uses and new ones would not, what
builds left for later ones, and what broke off. Stopped sandboxes, with their homes, and templates only if you say so.
Filters narrow it down, all of them have to fit:

  until=72h         not used for so long
  name=PATTERN      called so: claude-*, codex@*
  agent=NAME        of this agent`,
		Example: "  bothy system prune --dry-run\n  bothy system prune --sandboxes --filter until=720h",
		Args:    cmdline.Exactly(0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.prune(cmd, &f) },
	}
	fl := c.Flags()
	fl.BoolVar(&f.sandboxes, "sandboxes", false, "stopped sandboxes, too, with their homes")
	fl.BoolVar(&f.templates, "templates", false, "templates and images, too")
	fl.BoolVarP(&f.all, "all", "a", false, "both")
	return a.pruneFlags(c, &f)
}

func (a *app) prune(cmd *cobra.Command, f *pruneFlags) error {
	p, err := f.pruning(time.Now())
	if err != nil {
		return err
	}
	d, err := a.showDiskUse()
	if err != nil {
		return err
	}
	list := d.Chosen(p)
	if f.dry {
		err := a.pruned(list, true)
		a.pointToOthers(d, p)
		return err
	}
	if len(list) > 0 && !f.force && a.CanAsk() {
		if err := a.diskItems(list); err != nil {
			return err
		}
		if !a.Ask("remove these %d?", len(list)) {
			return spec.Errorf(spec.ErrDenied, "nothing was removed")
		}
	}
	var done []rootfs.Item
	var errs []error
	for _, it := range list {
		err := it.Remove(cmd.Context())
		if err == nil {
			done = append(done, it)
		}
		errs = append(errs, err)
	}
	errs = append(errs, a.pruned(done, false))
	a.pointToOthers(d, p)
	return console.Join(errs)
}

// pointToOthers prints other commands that would free something. A user of one kind of prune may
// have looked for what another removes.
func (a *app) pointToOthers(d rootfs.Usage, p rootfs.Pruning) {
	if a.JSON || len(p.Names) > 0 || len(p.Agents) > 0 || !p.Before.IsZero() {
		return
	}
	var commands []string
	sums := map[string]int64{}
	for _, row := range diskKinds {
		if row.frees == "" || slices.Contains(p.Kinds, row.kind) {
			continue
		}
		if _, free := sumOf(d.Chosen(rootfs.Pruning{Kinds: []string{row.kind}}), row.kind); free > 0 {
			if sums[row.frees] == 0 {
				commands = append(commands, row.frees)
			}
			sums[row.frees] += free
		}
	}
	for _, c := range commands {
		a.Note("%s would free %s more", c, spec.FormatSize(sums[c]))
	}
	if !slices.Contains(p.Kinds, rootfs.KindSandbox) {
		return
	}
	for _, it := range d.Items {
		if it.Fresh {
			a.Note("sandbox %s stays: it was used within the last 2 minutes", console.Printable(it.Name))
		}
	}
}

// pruned prints the items that were removed, or would be.
func (a *app) pruned(list []rootfs.Item, dry bool) error {
	var sum int64
	for _, it := range list {
		sum += it.Bytes
	}
	if a.JSON {
		return a.PrintJSON(map[string]any{"removed": shownItems(list), "bytes": sum, "dry_run": dry})
	}
	for _, it := range list {
		fmt.Fprintf(a.Out, "%s %s\n", it.Kind, console.Printable(it.Name))
	}
	word := "freed"
	if dry {
		word = "would free"
	}
	a.Note("%s %s", word, spec.FormatSize(sum))
	return nil
}

// pruning parses the flags.
func (f *pruneFlags) pruning(now time.Time) (p rootfs.Pruning, err error) {
	p.Kinds = f.kinds
	if f.sandboxes || f.all {
		p.Kinds = append(p.Kinds, rootfs.KindSandbox)
	}
	if f.templates || f.all {
		p.Kinds = append(p.Kinds, rootfs.KindTemplate, rootfs.KindImage)
	}
	for _, word := range f.filters {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "until":
			var at time.Time
			at, err = parseSince(value, now)
			if p.Before.IsZero() || at.Before(p.Before) { // all filters have to match
				p.Before = at
			}
		case "name":
			_, err = path.Match(value, "")
			p.Names = append(p.Names, value)
		case "agent":
			p.Agents = append(p.Agents, value)
		default:
			err = errors.New("there is none of this name")
		}
		if err == nil && value == "" {
			err = errors.New("it has no value")
		}
		if err != nil {
			return p, spec.Errorf(spec.ErrUsage, "--filter %s: %w", word, err).WithHint("filters are until=72h, name=PATTERN and agent=NAME")
		}
	}
	return p, nil
}

// parseSince parses a time: how long ago, a point in time, or seconds since 1970.
func parseSince(s string, now time.Time) (time.Time, error) {
	if t, err := network.PointInTime(s, now); err == nil && !t.IsZero() {
		return t, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.Unix(n, 0), nil
	}
	return now, errors.New("it is not a time")
}
