package runner

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

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Judge asks every gate.
func (s *Loop) Judge(ctx context.Context, number int64, baseline map[string]string) ([]loop.Gate, map[string]string, error) {
	p, err := s.checkpoint(number)
	if err != nil {
		return nil, nil, err
	}
	commands := len(s.plan.Until)
	for _, c := range s.plan.Criteria() {
		if c.File == "" {
			commands++
		}
	}
	in := &copies{base: &s.base, of: s.Sandbox, point: p, commands: commands}
	defer in.removeAll(ctx)
	gates, hashes, err := s.protected(ctx, in, baseline)
	if err != nil {
		return nil, nil, err
	}
	for _, line := range s.plan.Until {
		gates = append(gates, s.askGate(ctx, in, line, line, s.plan.Limits.Gate))
	}
	for _, c := range s.plan.Criteria() {
		if c.File == "" {
			gates = append(gates, s.askGate(ctx, in, c.ID, c.Command, *c.Timeout))
			continue
		}
		gates = append(gates, judged(c.ID, func() (string, string, error) { return s.judgeFile(ctx, in, &c) }))
	}
	return gates, hashes, ctx.Err()
}

// protected judges by hashes whether protected files are unchanged. Without a baseline it hashes
// them for the first time, and a file that cannot be hashed is an error.
func (s *Loop) protected(ctx context.Context, in *copies, baseline map[string]string) (gates []loop.Gate, hashes map[string]string, err error) {
	hashes = map[string]string{}
	for _, path := range s.plan.Protect {
		g := judged("protected "+path, func() (string, string, error) {
			sum, err := s.original(ctx, in, path, baseline == nil)
			if err != nil {
				return "", "", err
			}
			hashes[path] = sum
			if baseline != nil && baseline[path] != sum {
				return "it differs from its state before the first iteration", "", nil
			}
			return "", "", nil
		})
		g.Protects = path
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

// judged asks a gate. A gate that fails with an error is red. If its sandbox failed, it is asked once
// more, so that the iteration need not be repeated for that.
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

// askGate asks a gate that is a command, with a time limit.
func (s *Loop) askGate(ctx context.Context, in *copies, name, line string, limit spec.Duration) loop.Gate {
	in.commands--
	return judged(name, func() (why, output string, err error) {
		err = in.running(ctx, func(sb *spec.Sandbox) error {
			why, output, err = s.runGate(ctx, sb, wire.Command{Args: []string{"/bin/sh", "-c", line}, Timeout: limit})
			return err
		})
		return why, output, err
	})
}

// runGate runs a command that passes if it exits with 0.
func (s *Loop) runGate(ctx context.Context, sb *spec.Sandbox, q wire.Command) (why, output string, err error) {
	out := &headless.Ending{}
	status, said, err := runCommand(ctx, nil, s.sessionIn(sb), q, "", out, io.Discard)
	if short := shortened(err); short != nil && ctx.Err() == nil {
		why, err = short.Error(), nil
	}
	if err == nil && why == "" && status != 0 {
		why = fmt.Sprintf("exit code %d", status)
		if status == notFound {
			var more string
			why, more = s.explainMissing(ctx, sb, said)
			said += more
		}
	}
	return why, strings.ToValidUTF8(strings.TrimSpace(out.String()+"\n"+said), ""), err
}

// judgeFile judges a document of the work. Our own program reads it inside, and the host judges it.
func (s *Loop) judgeFile(ctx context.Context, in *copies, c *loopplan.Criterion) (why, output string, err error) {
	r := gate.Result{}
	err = in.reading(ctx, *c.Timeout, func(ctx context.Context, sb *spec.Sandbox) (bool, error) {
		document, missing, err := s.preparedSession(sb).Take(ctx, path.Join(sb.Workspaces[0].Target, filepath.ToSlash(c.File)))
		if r = gate.Missing(missing); err == nil && missing == "" {
			r = c.Checks().Judge(document)
		}
		return missing == "", err
	})
	if err != nil || r.Passed {
		return "", "", err
	}
	flaws := &headless.Ending{}
	_, _ = flaws.Write([]byte(strings.Join(r.Flaws(), "\n")))
	return "the file " + c.File + " does not pass: " + term.Opening(r.Flaws()[0]), strings.ToValidUTF8(flaws.String(), ""), nil
}
