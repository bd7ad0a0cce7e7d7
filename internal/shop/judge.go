package shop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/inside"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Judge asks every gate in a copy of its own: what one runs was written by the agent,
// and could change what the next one finds.
func (s *Loop) Judge(ctx context.Context, number int64, baseline map[string]string) ([]loop.Gate, map[string]string, error) {
	p, err := s.checkpoint(number)
	if err != nil {
		return nil, nil, err
	}
	gates, hashes, err := s.protected(ctx, p, baseline)
	if err != nil {
		return nil, nil, err
	}
	for _, line := range s.plan.Until {
		gates = append(gates, judged(line, func() (string, string, error) { return s.try(ctx, p, line, s.plan.Limits.Gate) }))
	}
	for _, c := range s.plan.Criteria() {
		gates = append(gates, judged(c.ID, func() (string, string, error) {
			if c.File != "" {
				return s.judgeFile(ctx, p, &c)
			}
			return s.try(ctx, p, c.Command, c.Timeout)
		}))
	}
	return gates, hashes, ctx.Err()
}

// protected judges whether what is protected is what it was, by its hashes. Without a
// baseline it is hashed for the first time, and what cannot be is an error.
func (s *Loop) protected(ctx context.Context, p checkpoint.Point, baseline map[string]string) (gates []loop.Gate, hashes map[string]string, err error) {
	hashes = map[string]string{}
	for _, path := range s.plan.Protect {
		g := judged("protected "+path, func() (string, string, error) {
			sum, err := s.hash(ctx, p, path)
			if err != nil {
				return "", "", err
			}
			hashes[path] = sum
			if baseline != nil && baseline[path] != sum {
				return "it is not what it was before the first iteration", "", nil
			}
			return "", "", nil
		})
		if baseline == nil && hashes[path] == "" && ctx.Err() == nil {
			return nil, nil, spec.Errorf(nil, "%s cannot be protected: %s", path, g.Why)
		}
		if _, err := os.Lstat(filepath.Join(s.plan.Directory, path)); baseline == nil && hashes[path] == absent && err == nil {
			return nil, nil, spec.Errorf(nil, "%s cannot be protected: it is here, but not in what the sandbox works on", path)
		}
		gates = append(gates, g)
	}
	return gates, hashes, nil
}

// judged asks a gate. One that cannot be asked is red; if that is because its sandbox did not
// come to it, it is asked once more: what was done is not done again for that.
func judged(name string, check func() (why, output string, err error)) loop.Gate {
	began := time.Now()
	why, output, err := check()
	if errors.Is(err, spec.ErrSandbox) {
		why, output, err = check()
	}
	if err != nil {
		why = "it cannot be judged: " + err.Error()
	}
	return loop.Gate{Name: name, Green: why == "", Why: why, Output: output, Seconds: time.Since(began).Seconds()}
}

// try runs a command in a copy of the work, for so long at most.
func (s *Loop) try(ctx context.Context, p checkpoint.Point, line string, limit spec.Duration) (why, output string, err error) {
	err = s.inProof(ctx, s.Sandbox, p, func(sb *spec.Sandbox) error {
		out := &inside.Ending{}
		q := wire.Command{Args: []string{"/bin/sh", "-c", line}, Timeout: limit}
		status, said, err := run(ctx, s.in(sb), q, "", out, io.Discard)
		output = strings.TrimSpace(out.String() + "\n" + said)
		if short := (*inside.CutShort)(nil); errors.As(err, &short) && ctx.Err() == nil {
			why, err = short.Error(), nil
		}
		if err == nil && why == "" && status != 0 {
			why = fmt.Sprintf("exit code %d", status)
		}
		return err
	})
	return why, strings.ToValidUTF8(output, ""), err
}

// judgeFile judges a document of the work. It is read in a copy in which nothing of the
// agent's has run, by a program of ours, and judged out here.
func (s *Loop) judgeFile(ctx context.Context, p checkpoint.Point, c *loop.Criterion) (why, output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Timeout))
	defer cancel()
	r := gate.Result{}
	err = s.inProof(ctx, s.Sandbox, p, func(sb *spec.Sandbox) error {
		document, missing, err := s.in(sb).Take(ctx, path.Join(sb.Workspaces[0].Target, filepath.ToSlash(c.File)))
		if r = gate.Missing(missing); err == nil && missing == "" {
			r = c.Checks().Judge(document)
		}
		return err
	})
	if err != nil || r.Passed {
		return "", "", err
	}
	flaws := &inside.Ending{}
	_, _ = flaws.Write([]byte(strings.Join(r.Flaws(), "\n")))
	return "the file " + c.File + " does not pass: " + term.Opening(r.Flaws()[0]), strings.ToValidUTF8(flaws.String(), ""), nil
}
