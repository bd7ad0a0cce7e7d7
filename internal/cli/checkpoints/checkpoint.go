package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/checkpoint/merge"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) checkpointCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "checkpoint", Aliases: []string{"checkpoints"}, Short: "Points that a sandbox can go back to",
		Long: "A checkpoint holds what the files of a sandbox were: its home, its installed programs,\nits private directories, and your directories as it changed them. A full one also holds\nthe programs that ran, with all they had in memory.",
	}
	c.AddCommand(a.checkpointCreateCommand(), a.checkpointLsCommand(), a.checkpointShowCommand(), a.checkpointRestoreCommand(), a.checkpointRmCommand(), a.checkpointAutoCommand(), a.checkpointExportCommand(), a.checkpointImportCommand())
	return c
}

func (a *app) checkpointCreateCommand() *cobra.Command {
	var files, full bool
	c := &cobra.Command{
		Use:   "create [--files|--full] SANDBOX [NAME]",
		Short: "Keep what a sandbox is now",
		Long:  "Keeps what the files of a sandbox are now, under NAME or a number. One that runs\nstands still for a moment and goes on. With --full its programs are kept, too, with all\nthat they hold in memory; but not those that bothy exec waits for without a terminal.\nOnly this build of bothy can have them go on.",
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(cmdline.AtLeast(1, "a sandbox")(cmd, args), cmdline.AtMost(2, "a sandbox and a name")(cmd, args))
		}, ValidArgsFunction: a.OneSandbox,
		RunE: func(cmd *cobra.Command, args []string) error {
			if files && full {
				return spec.Errorf(spec.ErrUsage, "--files keeps no programs: --full does not go with it")
			}
			e, sb, err := a.Existing(args[0])
			if err != nil {
				return err
			}
			name := ""
			if len(args) == 2 {
				name = args[1]
				if err := checkpoint.CheckName(name); err != nil {
					return err
				}
			}
			p, err := cmdline.Snapshots(e).Checkpoint(cmd.Context(), sb, name, "asked for", full)
			if err != nil {
				return err
			}
			if p.Left > 0 {
				a.Note("%s not in it, because unreadable or a device; going back leaves that as it is", cmdline.Counted(p.Left, "file"))
			}
			return a.Answer(pointOf(p), p.Name)
		},
	}
	c.Flags().BoolVar(&files, "files", false, "keep the files alone, as without a flag")
	c.Flags().BoolVar(&full, "full", false, "keep the programs that run, too, and their memory")
	return a.JSONFlag(c)
}

func (a *app) checkpointLsCommand() *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "ls SANDBOX", Aliases: []string{"list"}, Short: "List the checkpoints of a sandbox",
		Args: cmdline.Exactly(1, "a sandbox"), ValidArgsFunction: a.OneSandbox,
		RunE: a.OnSandbox(func(_ *cobra.Command, args []string, e *engine.Engine, sb *spec.Sandbox) error {
			shelf := cmdline.Snapshots(e).Checkpoints(sb)
			list, damaged, err := shelf.All()
			if err != nil {
				return err
			}
			head := shelf.Head()
			if a.JSON {
				points, unread := []point{}, []damagedPoint{}
				for _, p := range list {
					points = append(points, pointOf(p))
				}
				for _, d := range damaged {
					unread = append(unread, damagedPoint{d.Number, console.Printable(d.Why.Error())})
				}
				return a.PrintJSON(map[string]any{"checkpoints": points, "damaged": unread, "head": head})
			}
			w := a.Table()
			fmt.Fprintln(w, "CHECKPOINT\tNUMBER\tPARENT\tKIND\tCREATED\tHOLDS\tADDED\tCAUSE")
			for _, p := range list {
				number := strconv.FormatInt(p.Number, 10)
				if p.Number == head {
					number += "*"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, number, parentOf(p), kindOf(p), p.CreatedAt.Local().Format(time.DateTime), spec.FormatSize(p.Size), spec.FormatSize(p.Bytes), console.Printable(p.Cause))
			}
			for _, d := range damaged { // the name is lost with the file
				fmt.Fprintf(w, "%d\t%d\t-\tdamaged\t-\t-\t-\t%s\n", d.Number, d.Number, console.Printable(d.Why.Error()))
			}
			return w.Flush()
		}),
	})
}

// point is a checkpoint in JSON.
type point struct {
	Number    int64         `json:"number"`
	Name      string        `json:"name"`
	Parent    int64         `json:"parent,omitempty"`
	Kind      string        `json:"kind"`
	Cause     string        `json:"cause"`
	Unasked   bool          `json:"unasked"`
	CreatedAt time.Time     `json:"created_at"`
	Running   bool          `json:"running"`
	Pause     spec.Duration `json:"pause,omitempty"`
	Bytes     int64         `json:"bytes"`
	Size      int64         `json:"size"`
	Memory    int64         `json:"memory,omitempty"`
	Names     int           `json:"names"`
	Left      int           `json:"left,omitempty"`
}

// damagedPoint is an unreadable checkpoint in JSON.
type damagedPoint struct {
	Number int64  `json:"number"`
	Why    string `json:"why"`
}

func pointOf(p checkpoint.Point) point {
	return point{p.Number, p.Name, p.Parent, kindOf(p), p.Cause, p.Unasked, p.CreatedAt, p.Running, p.Pause, p.Bytes, p.Size, p.Memory, p.Names, p.Left}
}

// kindOf returns the kind of a checkpoint: with memory, or files only.
func kindOf(p checkpoint.Point) string {
	if p.Memory > 0 {
		return "full"
	}
	return "files"
}

func parentOf(p checkpoint.Point) string {
	if p.Parent == 0 {
		return "-"
	}
	return strconv.FormatInt(p.Parent, 10)
}

// checkpointOf finds a checkpoint of a sandbox.
func (a *app) checkpointOf(ref, point string) (*engine.Engine, *spec.Sandbox, checkpoint.Point, error) {
	e, sb, err := a.Existing(ref)
	if err != nil {
		return nil, nil, checkpoint.Point{}, err
	}
	p, err := cmdline.Snapshots(e).Checkpoints(sb).Find(point)
	return e, sb, p, err
}

func (a *app) checkpointShowCommand() *cobra.Command {
	var since string
	c := &cobra.Command{
		Use:   "show SANDBOX CHECKPOINT",
		Short: "Show what a checkpoint holds that the one before did not",
		Long:  "Lists the paths that differ between a checkpoint and its parent, or the one that --since\nnames. If the parent is gone, the newest takes its place that is older than it.",
		Args:  cmdline.Exactly(2, "a sandbox and a checkpoint"), ValidArgsFunction: a.sandboxAndCheckpoint,
		RunE: func(_ *cobra.Command, args []string) error {
			e, sb, p, err := a.checkpointOf(args[0], args[1])
			if err != nil {
				return err
			}
			from, err := a.shownSince(cmdline.Snapshots(e).Checkpoints(sb), p, since)
			if err != nil {
				return err
			}
			changes, err := cmdline.Snapshots(e).Changes(sb, from, p)
			if err != nil {
				return err
			}
			if a.JSON {
				for i := range changes {
					changes[i].Path = quote.Path(changes[i].Path)
				}
				return a.PrintJSON(map[string]any{"checkpoint": pointOf(p), "since": from.Number, "changes": append([]merge.Change{}, changes...)})
			}
			for _, c := range changes {
				if place := snapshot.PlaceOf(sb, c); place != "" {
					fmt.Fprintf(a.Out, "%-8s  %s\n", c.Kind, quote.Path(place))
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&since, "since", "", "compare with this checkpoint")
	return a.JSONFlag(c)
}

// shownSince returns the checkpoint to compare with; number 0 means none. Parents get removed, some
// automatically. If the parent is gone, it prints which checkpoint is used instead.
func (a *app) shownSince(shelf checkpoint.Shelf, p checkpoint.Point, since string) (checkpoint.Point, error) {
	if since != "" {
		return shelf.Find(since)
	}
	from, err := shelf.Before(p)
	if err != nil || from.Number == p.Parent {
		return from, err
	}
	if from.Number == 0 {
		a.Note("its parent, checkpoint %d, is gone, and it is the oldest left: all its files are listed", p.Parent)
		return from, nil
	}
	a.Note("its parent, checkpoint %d, is gone: compared with checkpoint %s", p.Parent, from.Name)
	return from, nil
}

func (a *app) checkpointRestoreCommand() *cobra.Command {
	var to string
	var force bool
	var o snapshot.RestoreOptions
	c := &cobra.Command{
		Use:   "restore [-f] SANDBOX CHECKPOINT",
		Short: "Put a sandbox back to a checkpoint",
		Long:  "Puts back the files that a checkpoint holds. A sandbox that runs is stopped. What files\nthere were before is kept as a checkpoint of its own, to come back to. From a full\ncheckpoint the programs go on that ran then; their connections are broken off. Rules and\nwhat is lent stay those of today. With --to a new sandbox begins from the checkpoint, and\nthis one goes on; directories that both share with the host have the files of today there.",
		Args:  cmdline.Exactly(2, "a sandbox and a checkpoint"), ValidArgsFunction: a.sandboxAndCheckpoint,
		RunE: func(cmd *cobra.Command, args []string) error {
			if to != "" && (o.Discard || o.NoWorkspace) {
				return spec.Errorf(spec.ErrUsage, "--to leaves sandbox %s and your directories alone: --discard and --no-workspace do not go with it", args[0])
			}
			e, sb, p, err := a.checkpointOf(args[0], args[1])
			if err != nil {
				return err
			}
			if to != "" {
				return a.restoreTo(cmd, e, sb, p, to, o.Files)
			}
			if !force {
				if err := WantsBack(a.Console, sb, p, o, "add -f, or --no-workspace, or run it in a terminal, where it asks"); err != nil {
					return err
				}
			}
			r, err := cmdline.Snapshots(e).Restore(cmd.Context(), sb, p, o)
			if r.Before != nil {
				a.Note("what there was is checkpoint %s", r.Before.Name)
			}
			for _, path := range r.Skipped {
				a.Note("not put back: %s", quote.Path(path))
			}
			if err != nil {
				return err
			}
			if r.Ran && !r.Runs {
				a.Note("sandbox %s was stopped; the next command starts it", sb.Name)
			}
			a.noteBeneath(e, sb, p)
			return console.Join([]error{a.printRestored(p, r), notBack(r.Skipped)})
		},
	}
	c.Flags().StringVar(&to, "to", "", "begin a new sandbox of this name from it")
	c.Flags().BoolVarP(&force, "force", "f", false, "do not ask")
	c.Flags().BoolVar(&o.Files, "files", false, "put back files alone, also from a full checkpoint")
	c.Flags().BoolVar(&o.NoWorkspace, "no-workspace", false, "leave your directories as they are")
	c.Flags().BoolVar(&o.Discard, "discard", false, "make no checkpoint of what there is")
	return a.JSONFlag(c)
}

func (a *app) printRestored(p checkpoint.Point, r snapshot.Restored) error {
	if !a.JSON {
		_, err := fmt.Fprintln(a.Out, p.Name)
		return err
	}
	answer := map[string]any{"restored": pointOf(p), "running": r.Runs, "skipped": append([]string{}, r.Skipped...)}
	if r.Before != nil {
		answer["before"] = pointOf(*r.Before)
	}
	return a.PrintJSON(answer)
}

// notBack returns the error for host paths that were not restored.
func notBack(skipped []string) error {
	if len(skipped) == 0 {
		return nil
	}
	return spec.Errorf(spec.ErrConflict, "%s could not be put back, all else was", cmdline.Counted(len(skipped), "path")).
		WithHint("files that are written meanwhile, or that you may not change, are left; mend that, and restore the checkpoint once more")
}

// noteBeneath prints the host directories that changed since the checkpoint, for example by an
// apply. Checkpoints do not hold them, so the sandbox sees them as they are now.
func (a *app) noteBeneath(e *engine.Engine, sb *spec.Sandbox, p checkpoint.Point) {
	list, err := cmdline.Snapshots(e).ChangedBeneath(sb, p.CreatedAt)
	switch {
	case err != nil:
		a.Note("whether your directories were changed since could not be learned: %v", err)
	case len(list) > 0:
		a.Note("in no checkpoint, and changed since %s, so it is as it is now: %s", p.Name, cmdline.Few(list))
	}
}

// WantsBack asks before a restore that loses data for good or that changes directories shared with
// the host. Where the CLI cannot ask, the error's hint is wayBack.
func WantsBack(a *console.Console, sb *spec.Sandbox, p checkpoint.Point, o snapshot.RestoreOptions, wayBack string) error {
	stake := ""
	if dirs := Shared(sb); len(dirs) > 0 && !o.NoWorkspace {
		stake = ", those in " + console.Printable(strings.Join(dirs, ", ")) + " included, whoever changed them since"
	}
	if o.Discard {
		stake += ", and lose what they are now"
	}
	if !a.CanAsk() {
		if stake == "" {
			return nil
		}
		return spec.Errorf(spec.ErrUsage, "restore would put files of sandbox %s back%s", sb.Name, stake).
			WithHint("%s", wayBack)
	}
	if !a.Ask("put the files of sandbox %s back to what they were at checkpoint %s%s?", sb.Name, p.Name, stake) {
		return spec.Errorf(spec.ErrDenied, "nothing was put back")
	}
	return nil
}

// Shared returns the host directories that a sandbox writes to directly.
func Shared(sb *spec.Sandbox) (list []string) {
	for _, m := range sb.Workspaces {
		if !m.ReadOnly && !sb.Reviews(m) && !sb.Clones(m) {
			list = append(list, m.Source)
		}
	}
	return list
}

func (a *app) restoreTo(cmd *cobra.Command, e *engine.Engine, sb *spec.Sandbox, p checkpoint.Point, name string, files bool) error {
	ctx, release := cmdline.Interruptible(cmd.Context())
	defer release()
	forks, err := cmdline.Snapshots(e).Fork(ctx, sb, p, []string{name}, files)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	if note := provision.ForkNote(sb); note != "" {
		a.Note("%s", note)
	}
	a.noteBeneath(e, sb, p)
	return a.Answer(forks[0], forks[0].Name)
}

func (a *app) checkpointRmCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm SANDBOX CHECKPOINT...", Aliases: []string{"remove", "delete"}, Short: "Remove checkpoints of a sandbox",
		Args: cmdline.AtLeast(2, "a sandbox and a checkpoint"), ValidArgsFunction: a.sandboxAndCheckpoint,
		RunE: a.OnSandbox(func(_ *cobra.Command, args []string, e *engine.Engine, sb *spec.Sandbox) error {
			var errs []error
			for _, ref := range args[1:] {
				p, err := cmdline.Snapshots(e).Checkpoints(sb).FindAny(ref)
				if err == nil {
					err = cmdline.Snapshots(e).Remove(sb, p)
				}
				if err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintln(a.Out, p.Name)
			}
			return console.Join(errs)
		}),
	}
}

// sandboxAndCheckpoint completes a sandbox and then its checkpoints.
func (a *app) sandboxAndCheckpoint(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.OneSandbox(cmd, args, word)
	}
	e, sb, err := a.Existing(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := cmdline.Snapshots(e).Checkpoints(sb).List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
