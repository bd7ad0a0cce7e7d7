package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The measured agent, and its prompt. The model is scripted.
const (
	benchAgent  = "claude"
	modelScript = "turns:\n  - text: Done.\n"
)

// Cases of the group agent. The added time is the difference from the agent on the host itself in the
// same round: in a new home as in a new sandbox, and a second time there as in a running one.
const (
	caseFirst    = "claude -p, first in a home"
	caseAgain    = "claude -p, again"
	caseNewBox   = "claude -p in a new sandbox, added"
	caseSameBox  = "claude -p in a running sandbox, added"
	placeOnHost  = "the host itself"
	placeOnBothy = "bothy"
)

// agent measures a whole run of a coding agent without a terminal, on the host
// and in a sandbox, against a model that answers at once.
func (b *bench) agent(ctx context.Context) (err error) {
	dir := filepath.Join(b.work, "agent")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	model, stop, err := b.model(ctx)
	if err != nil {
		return err
	}
	defer stop()
	a := &agentRun{bench: b, dir: dir, model: model}
	progress("agent: install " + benchAgent)
	if err := a.install(ctx); err != nil {
		b.report.note("agent: not measured: %s", b.redact(err))
		return nil
	}
	n := b.samples(7)
	for round := range n {
		progress("agent: round %d of %d", round+1, n)
		if err := a.round(ctx, round); err != nil {
			return err
		}
		if err := a.firstBytes(ctx, round); err != nil {
			return err
		}
	}
	return nil
}

type agentRun struct {
	*bench
	dir    string
	model  *url.URL
	binary string // of the agent, on the host
}

// model starts the scripted model.
func (b *bench) model(ctx context.Context) (*url.URL, func(), error) {
	bin, script := filepath.Join(b.work, "bin", "model"), filepath.Join(b.work, "model.yaml")
	if err := buildGo(ctx, b.root, "", bin, "./test/modelserver/serve"); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(script, []byte(modelScript), 0o600); err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, bin, script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop := func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("start the model: %w", err)
	}
	at, err := url.Parse(strings.TrimSpace(line))
	return at, stop, err
}

// install installs the agent once for all sandboxes and the host.
func (a *agentRun) install(ctx context.Context) error {
	if _, err := output(a.in(a.inside(ctx, "agent-first", "--version"))); err != nil {
		return err
	}
	if err := a.bothy.do(ctx, "rm", "--force", "agent-first"); err != nil {
		return err
	}
	found, _ := filepath.Glob(filepath.Join(a.bothy.home, "agents", benchAgent, "*", "package", benchAgent))
	if len(found) != 1 {
		return fmt.Errorf("%d installations of %s", len(found), benchAgent)
	}
	a.binary = found[0]
	return nil
}

// round runs the agent on the host, in a new sandbox, and there once more.
func (a *agentRun) round(ctx context.Context, n int) error {
	const prompt = "Say that you are done."
	name := fmt.Sprintf("agent-%d", n)
	home := filepath.Join(a.work, "home-"+name)
	if err := os.Mkdir(home, 0o755); err != nil {
		return err
	}
	hostFirst, err := timed(a.in(a.onHost(ctx, home, "-p", prompt)))
	if err != nil {
		return err
	}
	hostAgain, err := timed(a.in(a.onHost(ctx, home, "-p", prompt)))
	if err != nil {
		return err
	}
	fresh, err := timed(a.in(a.inside(ctx, name, "-p", prompt)))
	if err != nil {
		return err
	}
	again, err := timed(a.in(a.inside(ctx, name, "-p", prompt)))
	err = errors.Join(err, a.bothy.do(ctx, "rm", "--force", name))
	if err != nil {
		return err
	}
	a.report.series(groupAgent, caseFirst, placeOnHost, unitMS).add(hostFirst)
	a.report.series(groupAgent, caseAgain, placeOnHost, unitMS).add(hostAgain)
	for _, s := range []struct {
		name          string
		added, target float64
	}{{caseNewBox, fresh - hostFirst, 400}, {caseSameBox, again - hostAgain, 150}} {
		series := a.report.series(groupAgent, s.name, placeOnBothy, unitMS)
		series.Target = s.target
		series.add(s.added)
	}
	return nil
}

// onHost runs the agent without a wall, with the environment of a sandbox.
func (a *agentRun) onHost(ctx context.Context, home string, args ...string) *exec.Cmd {
	env := append(cleanEnv(home),
		"ANTHROPIC_BASE_URL="+a.model.String(), "ANTHROPIC_API_KEY=bench", "IS_SANDBOX=1",
		"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	return command(ctx, env, a.binary, append([]string{"--dangerously-skip-permissions"}, args...)...)
}

// inside runs it in a sandbox. There the model is a port of the host.
func (a *agentRun) inside(ctx context.Context, name string, args ...string) *exec.Cmd {
	return a.bothy.command(ctx, append([]string{
		"run", "--quiet", "--name", name, "--allow-host-port", a.model.Port(),
		"-e", "ANTHROPIC_BASE_URL=http://host.bothy:" + a.model.Port(), "-e", "ANTHROPIC_API_KEY=bench", benchAgent, ".", "--",
	}, args...)...)
}

func (a *agentRun) in(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = a.dir
	return cmd
}
