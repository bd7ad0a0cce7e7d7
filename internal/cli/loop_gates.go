package cli

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/cli/command"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) loopSchemaCommand() *command.Command {
	return &command.Command{
		Use: "schema", Short: "Print the JSON Schema of a file of gates", Args: exactly(0, "no argument"),
		RunE: func(*command.Command, []string) error {
			_, err := a.stdout.WriteString(loop.Schema())
			return err
		},
	}
}

// readGates reads the file of --gates. What it says is part of the plan from here on: the
// file, which may lie where the agent can write, is not looked at again.
func (f *loopFlags) readGates() error {
	if f.gates == "" {
		return nil
	}
	text, err := store.ReadFile(f.gates, 0, loop.MaxGates)
	var g *loop.Gates
	if err == nil {
		g, err = loop.ReadGates(text)
	}
	if err != nil {
		return (&spec.Error{Class: spec.ErrUsage, Op: "read the gates of " + f.gates, Err: err}).WithHint("docs/loops.md tells what a file of gates may say")
	}
	f.plan.Gates = g.Gates
	for _, p := range g.Protect {
		if !slices.Contains(f.plan.Protect, p) { // it would be hashed twice
			f.plan.Protect = append(f.plan.Protect, p)
		}
	}
	if f.plan.Until == nil {
		f.plan.Until = []string{}
	}
	return nil
}

// criteria asks the gates of the file that are no reviewers.
func (s *loopShop) criteria(ctx context.Context, p checkpoint.Point) (gates []loop.Gate) {
	for _, c := range s.plan.Criteria() {
		gates = append(gates, s.gate(c.ID, func() (string, string, error) {
			if c.File != "" {
				return s.judgeFile(ctx, p, &c)
			}
			return s.try(ctx, p, c.Command, c.Timeout)
		}))
	}
	return gates
}

// judgeFile judges a document of the work. It is read in a copy in which nothing of the
// agent's has run, by a program of ours, and judged out here.
func (s *loopShop) judgeFile(ctx context.Context, p checkpoint.Point, c *loop.Criterion) (why, output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Timeout))
	defer cancel()
	r := gate.Result{}
	err = s.inProof(ctx, p, func(sb *spec.Sandbox) error {
		document, missing, err := s.app.document(ctx, s.engine, sb, path.Join(sb.Workspaces[0].Target, filepath.ToSlash(c.File)), false)
		if r = gate.Missing(missing); err == nil && missing == "" {
			r = c.Checks().Judge(document)
		}
		return err
	})
	if err != nil || r.Passed {
		return "", "", err
	}
	flaws := &ending{}
	_, _ = flaws.Write([]byte(strings.Join(r.Flaws(), "\n")))
	return "the file " + c.File + " does not pass: " + opening(r.Flaws()[0]), strings.ToValidUTF8(flaws.String(), ""), nil
}
