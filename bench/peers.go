package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// bwrapArgs shows the host's files as they are, read-only, and dir as the only writable directory.
// Without dir nothing is writable.
func bwrapArgs(dir string) []string {
	args := []string{"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"}
	if dir != "" {
		args = append(args, "--tmpfs", "/tmp", "--bind", dir, dir, "--chdir", dir)
	}
	return append(args, "--unshare-all")
}

// noBwrap returns why bwrap cannot be measured here, or "".
func noBwrap(ctx context.Context) string {
	if _, err := exec.LookPath("bwrap"); err != nil {
		return "not installed"
	}
	if _, err := output(exec.CommandContext(ctx, "bwrap", append(bwrapArgs(""), "true")...)); err != nil {
		return err.Error()
	}
	return ""
}

// docker is a running daemon with an image of one program that does nothing.
type docker struct{ image string }

// newDocker makes the image without a registry: the program is built here.
func newDocker(ctx context.Context, work string) (*docker, error) {
	if _, err := exec.LookPath("docker"); err != nil {
		return nil, errors.New("not installed")
	}
	if _, err := output(exec.CommandContext(ctx, "docker", "info")); err != nil {
		return nil, errors.New("no daemon")
	}
	layer, err := trueLayer(ctx, work)
	if err != nil {
		return nil, err
	}
	d := &docker{image: fmt.Sprintf("bothy-bench:%d", os.Getpid())}
	load := exec.CommandContext(ctx, "docker", "import", "-", d.image)
	load.Stdin = layer
	_, err = output(load)
	return d, err
}

func (d *docker) remove() error {
	_, err := output(exec.Command("docker", "image", "rm", "--force", d.image))
	return err
}

// trueLayer returns a tar archive of the smallest static program, as /true.
func trueLayer(ctx context.Context, work string) (*bytes.Buffer, error) {
	program, err := buildTrue(ctx, work)
	if err != nil {
		return nil, err
	}
	return oneFile("true", program)
}

// buildTrue builds the smallest static program.
func buildTrue(ctx context.Context, work string) ([]byte, error) {
	src, bin := filepath.Join(work, "true.go"), filepath.Join(work, "true")
	if err := os.WriteFile(src, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", bin, src)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if _, err := output(cmd); err != nil {
		return nil, err
	}
	return os.ReadFile(bin)
}

// oneFile returns a tar archive of one program.
func oneFile(name string, content []byte) (*bytes.Buffer, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write(content)
	}
	return &buf, errors.Join(err, w.Close())
}
