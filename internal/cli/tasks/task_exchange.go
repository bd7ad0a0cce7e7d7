package tasks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/term"
)

func (t *taskCall) importCommand() *cobra.Command {
	var overwrite, dry bool
	c := &cobra.Command{
		Use: "import FILE | -", Short: "Take tasks over: from an issues.jsonl, an export, a prd.json, or boxes in Markdown",
		Long:    "Takes tasks over from a file with a task a line, or from standard input: those that are\nnew, and those that were changed later than the ones here. All of the file is taken, or\nnothing. A claimed task stays as it is. The stories of a prd.json become tasks, too,\nand in a file that ends with .md the lines with a box, \"- [ ] TITLE\"; of one that is\nhere, what its entry says otherwise than last time is taken over where nothing was changed\nhere, and none is opened again, or closed without --overwrite.",
		Example: "  bothy task import .beads/issues.jsonl\n  bothy task export -C ../other | bothy task import -",
		Args:    cmdline.Exactly(1, "a file, or -"), ValidArgsFunction: cmdline.FileNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := t.readImport(args[0])
			if err != nil {
				return err
			}
			var taken task.Taken
			take := func(g *task.Graph, _ string, now time.Time) (err error) {
				taken, err = g.Import(list, overwrite, now)
				return err
			}
			if dry {
				g, err := t.viewTasks(cmd.Context())
				if err == nil {
					err = take(g, "", time.Now())
				}
				if err != nil {
					return err
				}
			} else if _, err := t.change(cmd.Context(), take); err != nil {
				return err
			}
			return t.printTaken(taken, dry)
		},
	}
	c.Flags().BoolVar(&overwrite, "overwrite", false, "overwrite tasks that were changed later here, too, and close those that a list has as done")
	c.Flags().BoolVar(&dry, "dry-run", false, "only tell what would be taken over")
	return t.addProjectFlags(c)
}

// readImport reads tasks from a file or standard input.
func (t *taskCall) readImport(path string) ([]*task.Task, error) {
	var data []byte
	var err error
	at := time.Now().UTC()
	if path == "-" {
		data, err = store.ReadAll(t.In, maxTaskInput)
	} else {
		data, at, err = t.readDated(path, maxTaskInput)
	}
	if err != nil {
		return nil, ReadError(path, err)
	}
	var f *task.Foreign
	switch {
	case strings.EqualFold(filepath.Ext(path), ".md"):
		f, err = task.ReadBoxes(data, at)
	case task.IsStories(data):
		f, err = task.ReadStories(data, at)
	default:
		f, err = task.ReadIssues(data)
	}
	if err != nil {
		return nil, err
	}
	NotePassed(t.Console, path, f.Passed)
	return f.Tasks, nil
}

// readDated reads a file, and returns its time of change.
func (a *app) readDated(path string, most int64) ([]byte, time.Time, error) {
	f, err := a.OpenNamed(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	data, err := store.ReadAll(f, most)
	return data, info.ModTime().UTC(), err
}

// NotePassed prints the parts of a file that are ignored.
func NotePassed(a *console.Console, path string, passed []string) {
	if len(passed) > 0 {
		a.Note("%s: not taken over: %s", quote.Path(path), term.Sanitize(strings.Join(passed, ", ")))
	}
}

func (t *taskCall) printTaken(taken task.Taken, dry bool) error {
	if t.JSON {
		return t.PrintJSON(struct {
			task.Taken
			DryRun bool `json:"dry_run"`
		}{taken, dry})
	}
	_, err := fmt.Fprintf(t.Out, "%d added, %d updated, %d unchanged, %d changed later here, %d claimed here\n",
		len(taken.Added), len(taken.Updated), len(taken.Same), len(taken.Older), len(taken.Held))
	if n := len(taken.Done); err == nil && n > 0 {
		t.Note("done by the file, and open here: %d; --overwrite closes what the file has as done", n)
	}
	if err == nil && dry {
		t.Note("nothing was taken over: this was a trial")
	}
	return err
}

func (t *taskCall) exportCommand() *cobra.Command {
	return t.addProjectFlags(&cobra.Command{
		Use: "export", Short: "Print all tasks, one a line, as Beads reads them from issues.jsonl",
		Args: cmdline.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := t.viewTasks(cmd.Context())
			if err != nil {
				return err
			}
			if t.JSON {
				list := []json.RawMessage{}
				for _, x := range g.All() {
					doc, err := x.Encode()
					if err != nil {
						return err
					}
					list = append(list, doc)
				}
				return t.PrintJSON(map[string]any{"tasks": list})
			}
			var b bytes.Buffer
			if err := g.Write(&b); err != nil {
				return err
			}
			_, err = t.Out.Write(term.EscapeJSON(b.Bytes()))
			return err
		},
	})
}
