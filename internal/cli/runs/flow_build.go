package runs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/runview"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func flowBuildCommand(a *app) *cobra.Command {
	f := &flowFlags{}
	c := &cobra.Command{
		Use:   "build --agent NAME [flags] DESCRIPTION [FILE]",
		Short: "Have an agent draft a flow from a description",
		Long: `Has an agent write a flow for DESCRIPTION, sends it back as long as that is none, and
writes it to FILE (default: flow.yaml), which must not be there yet. It is a flow of one
step itself: its run is called build-DATE-HEX, and has logs and outputs as others have. Its
sandbox goes when there is a flow; if there is none yet, when you stop or remove the run.`,
		Example: `  bothy flow build --agent claude "translate a file into three languages, and have me check them"`,
		Args:    between(1, 2, "a description, and a file if it shall not be flow.yaml"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.flowBuild(cmd, f, args) },
	}
	f.addRooms(a, c)
	fs := c.Flags()
	fs.StringVar(&f.plan.Agent, "agent", "", "who drafts it")
	fs.DurationVar(&f.time, "max-time", 0, "for all of it, e.g. 1h (default: any)")
	cmdline.CompleteFlag(c, "agent", a.KnownAgents)
	cmdline.CompleteFlag(c, "secret", a.SecretNames)
	return a.JSONFlag(c)
}

// flowBuild has an agent draft a flow, and writes the draft to a file.
func (a *app) flowBuild(cmd *cobra.Command, f *flowFlags, args []string) error {
	file := "flow.yaml"
	if len(args) > 1 {
		file = args[1]
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, spec.Errorf(spec.ErrConflict, "there is a file %s already", file).WithHint("name another one behind the description"))
	}
	p := &f.plan
	var err error
	if p.Flow, f.given, err = flowplan.Builder(); err != nil {
		return err
	}
	p.Values, p.Files, p.Sandboxes, p.Drafts = map[string]string{"description": args[0]}, []string{}, map[string]string{}, true
	p.Remove = true // its sandbox holds nothing that the run does not have
	p.Limits.Time = spec.Duration(f.time)
	for name := range f.given {
		p.Files = append(p.Files, name)
	}
	if err := p.Check(f.given); err != nil {
		return err
	}
	if p.DraftTo, err = filepath.Abs(file); err != nil {
		return err
	}
	return a.beginFlow(cmd, f, nil)
}

// writeDraft writes the drafted flow to the file that was named at the start. The file must not
// exist, except with the very content from an earlier attempt.
func (a *app) writeDraft(p *flowplan.Plan, r *run.Run, s *flow.State) error {
	if s.Draft() == "" {
		return nil
	}
	at := filepath.Join(r.Dir(), s.Draft())
	if p.DraftTo == "" { // recorded by a bothy that did not keep the name
		a.Note("the draft is in %s", at)
		return nil
	}
	text, err := store.ReadFile(at, 0, gate.MaxBytes)
	if err == nil {
		err = a.writeNew(p.DraftTo, text)
	}
	if errors.Is(err, fs.ErrExist) {
		if there, unread := a.ReadFile(p.DraftTo, gate.MaxBytes); unread == nil && bytes.Equal(there, text) {
			return nil
		}
	}
	if err != nil {
		return (&spec.Error{Op: "write " + p.DraftTo, Err: err}).WithHint("it is in %s", at)
	}
	name := p.DraftTo
	if here, err := filepath.Abs("."); err == nil && filepath.Dir(name) == here {
		name = filepath.Base(name)
	}
	a.Note("wrote %s after %s; bothy flow show %s shows its steps", name, runview.Rounded(time.Duration(s.Elapsed)), name)
	return nil
}

// writeNew writes a file that must not exist.
func (a *app) writeNew(name string, text []byte) error {
	paths, err := a.Paths()
	if err != nil {
		return err
	}
	_, dir, err := paths.OpenDir(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := dir.OpenFile(filepath.Base(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
