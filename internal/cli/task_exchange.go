package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bothy-dev/bothy/internal/cli/command"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/task"
)

func (t *taskCall) importCommand() *command.Command {
	var overwrite, dry bool
	c := &command.Command{
		Use: "import FILE | -", Short: "Take tasks over from an issues.jsonl of Beads, or what was exported",
		Long:    "Takes tasks over from a file with a task a line, or from standard input: those that are\nnew, and those that were changed later than the ones here. All of the file is taken, or\nnothing. What somebody has claimed here stays.",
		Example: "  bothy task import .beads/issues.jsonl\n  bothy task export -C ../other | bothy task import -",
		Args:    exactly(1, "a file, or -"), Complete: command.FileNames,
		RunE: func(cmd *command.Command, args []string) error {
			list, err := t.readLines(args[0])
			if err != nil {
				return err
			}
			var taken task.Taken
			take := func(g *task.Graph, _ string, now time.Time) (err error) {
				taken, err = g.Import(list, overwrite, now)
				return err
			}
			if dry {
				g, err := t.view(cmd.Context())
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
	c.Flags().BoolVar(&overwrite, "overwrite", false, "also those that were changed later here")
	c.Flags().BoolVar(&dry, "dry-run", false, "only tell what would be taken over")
	return t.scope(c)
}

// readLines reads tasks from a file or standard input.
func (t *taskCall) readLines(path string) ([]*task.Task, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = store.ReadAll(t.stdin, maxTaskInput)
	} else {
		data, err = store.ReadFile(path, 0, maxTaskInput)
	}
	if err != nil {
		return nil, readError(path, err)
	}
	return task.Read(data)
}

func (t *taskCall) printTaken(taken task.Taken, dry bool) error {
	if t.json {
		return t.printJSON(struct {
			task.Taken
			DryRun bool `json:"dry_run"`
		}{taken, dry})
	}
	_, err := fmt.Fprintf(t.stdout, "%d added, %d updated, %d unchanged, %d changed later here, %d claimed here\n",
		len(taken.Added), len(taken.Updated), len(taken.Same), len(taken.Older), len(taken.Held))
	if err == nil && dry {
		t.note("nothing was taken over: this was a trial")
	}
	return err
}

func (t *taskCall) exportCommand() *command.Command {
	return t.scope(&command.Command{
		Use: "export", Short: "Print all tasks, one a line, as Beads reads them from issues.jsonl",
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *command.Command, _ []string) error {
			g, err := t.view(cmd.Context())
			if err != nil {
				return err
			}
			if t.json {
				list := []json.RawMessage{}
				for _, x := range g.All() {
					doc, err := x.Encode()
					if err != nil {
						return err
					}
					list = append(list, doc)
				}
				return t.printJSON(map[string]any{"tasks": list})
			}
			var b bytes.Buffer
			if err := g.Write(&b); err != nil {
				return err
			}
			_, err = t.stdout.Write(escapeControls(b.Bytes()))
			return err
		},
	})
}
