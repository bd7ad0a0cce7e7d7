package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// action is one command of a round. Without a case it is not measured.
type action struct {
	name, subject string
	target        float64
	cmd           func(round int) *exec.Cmd
}

// settle is a pause for the last command's background work to finish.
const settle = 100 * time.Millisecond

// life measures the life of a sandbox, each step as a whole process.
func (b *bench) life(ctx context.Context) (err error) {
	dir := filepath.Join(b.work, "life")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "private"), 0o755); err != nil {
		return err
	}
	l := &life{bench: b, dir: dir}
	defer func() { err = errors.Join(err, l.close()) }()
	if err := l.prepare(ctx); err != nil {
		return err
	}
	n := b.samples(21)
	for round := range n {
		progress("life: round %d of %d", round+1, n)
		for _, a := range l.actions(ctx) {
			if err := l.act(a, round); err != nil {
				return err
			}
		}
	}
	if l.bare != nil {
		l.report.link()
	}
	return nil
}

// life is the set-up for measuring steps.
type life struct {
	*bench
	dir     string
	bare    *bothy // its sandboxes have no network
	noBwrap string
	runc    *runc
	docker  *docker
	image   string // why no sandbox starts from it; empty if one does
}

func (l *life) prepare(ctx context.Context) error {
	if l.before == nil {
		if err := l.preparePeers(ctx); err != nil {
			return err
		}
	}
	for _, v := range l.versions() {
		if err := v.bothy.do(ctx, "create", "--quiet", "--name", "resident", "shell", l.dir); err != nil {
			return err
		}
		if err := v.bothy.do(ctx, "exec", "resident", "true"); err != nil {
			return err
		}
	}
	return nil
}

// preparePeers prepares the subjects with which Bothy is compared, except Bothy itself.
func (l *life) preparePeers(ctx context.Context) error {
	var err error
	if l.noBwrap = noBwrap(ctx); l.noBwrap != "" {
		l.report.skip(groupLife, caseRun, "bwrap", l.noBwrap)
	}
	if l.bare, err = l.buildUnplugged(ctx); err != nil {
		return err
	}
	if l.runc, err = newRunc(ctx, filepath.Join(l.work, "life-runc"), l.dir); err != nil {
		l.report.skip(groupLife, caseRun, "runc", l.redact(err))
	}
	if l.docker, err = newDocker(ctx, l.work); err != nil {
		l.report.skip(groupLife, caseRun, "docker", l.redact(err))
	}
	if err := l.loadImage(ctx); err != nil {
		l.image = l.redact(err)
		l.report.skip(groupLife, caseImage, "bothy", l.image)
	}
	// The first sandbox copies the host's settings, which later ones share.
	_, err = output(l.in(l.bare.command(ctx, "run", "--rm", "shell", ".", "--", "true")))
	return err
}

func (l *life) close() error {
	var errs []error
	for _, v := range l.versions() {
		errs = append(errs, v.bothy.do(context.Background(), "rm", "--force", "resident"))
	}
	if l.runc != nil {
		errs = append(errs, l.runc.remove())
	}
	if l.docker != nil {
		errs = append(errs, l.docker.remove())
	}
	return errors.Join(errs...)
}

// Cases in which more than one subject takes part.
const (
	caseRun  = "run --rm shell . -- true"
	caseExec = "exec NAME true"

	caseImage  = "run --rm -t IMAGE shell . -- /true"
	caseStop   = "stop NAME"
	caseRemove = "rm NAME (running)"
)

// actions returns one round, in order: each step by all versions of Bothy, one after the other.
func (l *life) actions(ctx context.Context) (list []action) {
	for i, step := range l.steps(ctx, version{"bothy", l.bothy}) {
		list = append(list, step)
		if l.before != nil {
			list = append(list, l.steps(ctx, version{beforeName, l.before})[i])
		}
		if i == 0 && l.before == nil {
			list = append(list, l.peers(ctx)...)
		}
	}
	return list
}

// steps returns the steps of a version of Bothy in a round.
func (l *life) steps(ctx context.Context, v version) []action {
	bothy := func(args ...string) func(int) *exec.Cmd {
		return func(int) *exec.Cmd { return l.in(v.bothy.command(ctx, args...)) }
	}
	// Each round has a sandbox of its own.
	own := func(args ...string) func(int) *exec.Cmd {
		return func(round int) *exec.Cmd {
			list := make([]string, len(args))
			for i, a := range args {
				list[i] = a
				if a == "NAME" {
					list[i] = fmt.Sprintf("life-%d", round)
				}
			}
			return l.in(v.bothy.command(ctx, list...))
		}
	}
	list := []action{
		{caseRun, v.name, 120, bothy("run", "--rm", "shell", ".", "--", "true")},
		{"run --rm --private DIR shell . -- true", v.name, 0, bothy("run", "--rm", "--private", "private", "shell", ".", "--", "true")},
	}
	if l.image == "" && l.before == nil {
		list = append(list, action{caseImage, v.name, 150, bothy("run", "--rm", "-t", benchImage, "shell", ".", "--", "/true")})
	}
	return append(list,
		action{caseExec, v.name, 15, bothy("exec", "resident", "true")},
		action{"version", v.name, 10, bothy("version")},

		action{cmd: own("create", "--quiet", "--name", "NAME", "shell", ".")},
		action{cmd: own("exec", "NAME", "sh", "-c", "echo kept > /var/tmp/kept")},
		action{caseStop, v.name, 100, own("stop", "NAME")},
		action{"run NAME -- true (stopped)", v.name, 120, own("run", "NAME", "--", "true")},
		action{cmd: own("exec", "NAME", "grep", "kept", "/var/tmp/kept")},
		action{caseRemove, v.name, 50, own("rm", "NAME")},

		action{cmd: own("create", "--quiet", "--name", "NAME", "shell", ".")},
		action{cmd: own("exec", "NAME", "true")},
		action{cmd: own("stop", "NAME")},
		action{"rm NAME (stopped)", v.name, 50, own("rm", "NAME")},
	)
}

// peers returns the commands of other programs that do the same, and of a Bothy without a network.
func (l *life) peers(ctx context.Context) []action {
	list := []action{{caseRun, noNetwork, 0, func(int) *exec.Cmd {
		return l.in(l.bare.command(ctx, "run", "--rm", "shell", ".", "--", "true"))
	}}}
	if l.noBwrap == "" {
		list = append(list, action{caseRun, "bwrap", 0, func(int) *exec.Cmd {
			return l.in(command(ctx, cleanEnv(l.dir), "bwrap", append(bwrapArgs(""), "true")...))
		}})
	}
	if l.runc != nil {
		list = append(list, action{caseRun, "runc", 0, func(round int) *exec.Cmd {
			return l.runc.once(ctx, fmt.Sprintf("bench-%d", round))
		}}, action{caseExec, "runc", 0, func(int) *exec.Cmd {
			return l.runc.exec(ctx, l.dir, "true")
		}})
	}
	if l.docker != nil {
		list = append(list, action{caseRun, "docker", 0, func(int) *exec.Cmd {
			return exec.CommandContext(ctx, "docker", "run", "--rm", l.docker.image, "/true")
		}})
	}
	return list
}

// in runs a command in the workspace.
func (l *life) in(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = l.dir
	return cmd
}

// act performs one action and records the time that it took.
func (l *life) act(a action, round int) error {
	cmd := a.cmd(round)
	if a.name == "" {
		_, err := output(cmd)
		return err
	}
	time.Sleep(settle)
	ms, err := timed(cmd)
	if err != nil {
		return fmt.Errorf("%s with %s: %w", a.name, a.subject, err)
	}
	s := l.report.series(groupLife, a.name, a.subject, unitMS)
	s.Target = a.target
	s.add(ms)
	return nil
}
