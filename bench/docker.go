package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Cases of the group docker.
const (
	caseReady    = "the daemon answers for the first time"
	caseFirstRun = "docker run, the first"
	caseNextRun  = "docker run, again"
	caseBuild    = "docker build, one step"
)

// dockerImage is an image of one static program.
const dockerImage = "bench-true"

// dockers measures a sandbox's own Docker daemon and one on the host with the same flags, both new in
// every round.
func (b *bench) dockers(ctx context.Context) error {
	for _, name := range []string{"dockerd", "docker"} {
		if _, err := exec.LookPath(name); err != nil {
			b.report.note("docker: not measured: %s", b.redact(err))
			return nil
		}
	}
	dir := filepath.Join(b.work, "docker")
	if err := b.dockerContext(ctx, dir); err != nil {
		return err
	}
	n := b.samples(5)
	for round := range n {
		progress("docker: round %d of %d", round+1, n)
		if err := b.dockerInside(ctx, dir, round); err != nil {
			return err
		}
		if err := b.dockerOnHost(ctx, dir, round); err != nil {
			b.report.skip(groupDocker, caseReady, "dockerd on the host", b.redact(err))
		}
	}
	return nil
}

// dockerContext makes a directory with an image, and a build context that uses it.
func (b *bench) dockerContext(ctx context.Context, dir string) error {
	layer, err := trueLayer(ctx, b.work)
	if err != nil {
		return err
	}
	return errors.Join(
		os.Mkdir(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "image.tar"), layer.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM "+dockerImage+"\nRUN [\"/true\"]\n"), 0o644),
		os.WriteFile(filepath.Join(dir, ".dockerignore"), []byte("image.tar\n"), 0o644),
	)
}

// dockerInside measures a daemon in a running sandbox.
func (b *bench) dockerInside(ctx context.Context, dir string, round int) (err error) {
	name := fmt.Sprintf("docker-%d", round)
	if err := b.bothy.do(ctx, "create", "--quiet", "--docker", "--name", name, "shell", dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.bothy.do(context.WithoutCancel(ctx), "rm", "--force", name)) }()
	if err := b.bothy.do(ctx, "exec", name, "true"); err != nil {
		return err
	}
	docker := func(args ...string) *exec.Cmd {
		return b.bothy.command(ctx, append([]string{"exec", "-e", "DOCKER_BUILDKIT=0", name, "docker"}, args...)...)
	}
	ms, err := timed(docker("version"))
	if err != nil {
		return err
	}
	ready := b.report.series(groupDocker, caseReady, "bothy", unitMS)
	ready.Target = 3000
	ready.add(ms)
	return b.dockerSteps("bothy", docker)
}

// dockerOnHost measures a daemon on the host. It runs in its own network namespace, so its bridge
// disappears when it ends.
func (b *bench) dockerOnHost(ctx context.Context, dir string, round int) (err error) {
	home := filepath.Join(b.work, fmt.Sprintf("dockerd-%d", round))
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	socket := "unix://" + filepath.Join(home, "sock")
	env := append(cleanEnv(home), "DOCKER_HOST="+socket, "DOCKER_BUILDKIT=0")
	daemon := command(ctx, env, "unshare", "--net", "--", "dockerd", "--host="+socket, "--storage-driver=overlay2", "--iptables=false", "--ip6tables=false",
		"--data-root="+filepath.Join(home, "data"), "--exec-root="+filepath.Join(home, "exec"), "--pidfile="+filepath.Join(home, "pid"))
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	daemon.Stdout, daemon.Stderr = log, log
	docker := func(args ...string) *exec.Cmd {
		cmd := command(ctx, env, "docker", args...)
		cmd.Dir = dir
		return cmd
	}
	begin := time.Now()
	if err := daemon.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	defer func() {
		_ = daemon.Process.Signal(syscall.SIGTERM) // unshare became the daemon
		<-ended
	}()
	for {
		if _, err := output(docker("version")); err == nil {
			break
		}
		select {
		case <-ended:
			ended <- nil
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("dockerd does not start on this host: %s", lastLines(string(said)))
		case <-time.After(20 * time.Millisecond):
		}
	}
	b.report.series(groupDocker, caseReady, "dockerd on the host", unitMS).add(float64(time.Since(begin).Microseconds()) / 1000)
	return b.dockerSteps("dockerd on the host", docker)
}

// dockerSteps measures commands that use a daemon.
func (b *bench) dockerSteps(subject string, docker func(args ...string) *exec.Cmd) error {
	if _, err := output(docker("import", "image.tar", dockerImage)); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		args []string
	}{
		{caseFirstRun, []string{"run", "--rm", dockerImage, "/true"}},
		{caseNextRun, []string{"run", "--rm", dockerImage, "/true"}},
		{caseBuild, []string{"build", "--quiet", "--no-cache", "."}},
	} {
		ms, err := timed(docker(step.args...))
		if err != nil {
			return err
		}
		b.report.series(groupDocker, step.name, subject, unitMS).add(ms)
	}
	return nil
}
