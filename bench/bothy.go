package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// bothy is the program that is measured, with a state directory of its own.
type bothy struct {
	bin, home string
	env       []string
}

// moduleRoot returns the directory of bothy's source.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := output(exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}"))
	return strings.TrimSpace(out), err
}

// build makes the binary in the same way as a release.
func build(ctx context.Context, root, work string) (*bothy, error) {
	b := &bothy{bin: filepath.Join(work, "bin", "bothy"), home: filepath.Join(work, "bothy")}
	home := filepath.Join(work, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		return nil, err
	}
	b.env = append(cleanEnv(home), "BOTHY_HOME="+b.home)
	return b, buildBothy(ctx, root, "", b.bin)
}

// buildBothy builds a bothy, and next to it the programs that belong to it.
func buildBothy(ctx context.Context, root, overlay, bin string) error {
	return buildGo(ctx, root, overlay, filepath.Dir(bin)+"/", "./cmd/...")
}

// buildGo builds programs of this module, with the files of the overlay replaced, if there is one. A
// directory ends with a slash.
func buildGo(ctx context.Context, root, overlay, to, what string) error {
	args := []string{"build", "-trimpath", "-ldflags", "-s -w", "-o", to}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, what)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	_, err := output(cmd)
	return err
}

// cleanEnv returns the environment of every subject.
func cleanEnv(home string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8", "USER=" + os.Getenv("USER"),
		"SHELL=/bin/sh", // XDG_CONFIG_HOME stays unset: no settings
	}
}

func (b *bothy) command(ctx context.Context, args ...string) *exec.Cmd {
	return command(ctx, b.env, b.bin, args...)
}

// do runs a command that is not measured.
func (b *bothy) do(ctx context.Context, args ...string) error {
	_, err := output(b.command(ctx, args...))
	return err
}

// reset removes all remaining sandboxes, also after an interrupt.
func (b *bothy) reset() error {
	if _, err := os.Stat(b.home); err != nil {
		return nil
	}
	return b.do(context.Background(), "reset", "--force")
}
