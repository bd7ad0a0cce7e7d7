package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// runc is a bundle whose root shows the host's programs, and one container of
// it that stays up.
type runc struct {
	state, bundle, resident string
	env                     []string
}

// shown are the host's directories that a runc container sees.
var shown = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc"}

// newRunc prepares a bundle in work, with dir as the only writable directory, and starts the container
// that stays.
func newRunc(ctx context.Context, work, dir string) (*runc, error) {
	if _, err := exec.LookPath("runc"); err != nil {
		return nil, errors.New("not installed")
	}
	r := &runc{
		state: filepath.Join(work, "state"), bundle: filepath.Join(work, "once"), resident: "bench-resident",
		env: cleanEnv(dir),
	}
	if err := makeBundle(ctx, r.bundle, dir, "true"); err != nil {
		return nil, err
	}
	stay := filepath.Join(work, "stay")
	if err := makeBundle(ctx, stay, dir, "sleep", "infinity"); err != nil {
		return nil, err
	}
	if _, err := output(r.once(ctx, "bench-probe")); err != nil {
		return nil, err
	}
	// Its standard streams would stay open with the container, so it gets none.
	if err := r.command(ctx, "run", "--detach", "--bundle", stay, r.resident).Run(); err != nil {
		return nil, fmt.Errorf("start a container that stays: %w", err)
	}
	return r, nil
}

func (r *runc) command(ctx context.Context, args ...string) *exec.Cmd {
	return command(ctx, r.env, "runc", append([]string{"--root", r.state}, args...)...)
}

// once runs a container from creation to removal.
func (r *runc) once(ctx context.Context, id string) *exec.Cmd {
	return r.command(ctx, "run", "--bundle", r.bundle, id)
}

// exec runs a command in the container that stays.
func (r *runc) exec(ctx context.Context, dir string, args ...string) *exec.Cmd {
	return r.command(ctx, append([]string{"exec", "--cwd", dir, r.resident}, args...)...)
}

func (r *runc) remove() error {
	_, err := output(r.command(context.Background(), "delete", "--force", r.resident))
	return err
}

// makeBundle lets runc write its usual configuration and changes only the program and the root, which is
// empty except for links and binds.
func makeBundle(ctx context.Context, bundle, dir string, args ...string) error {
	root := filepath.Join(bundle, "rootfs")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	spec := []string{"spec", "--bundle", bundle}
	if os.Geteuid() != 0 {
		spec = append(spec, "--rootless")
	}
	if _, err := output(exec.CommandContext(ctx, "runc", spec...)); err != nil {
		return err
	}
	file := filepath.Join(bundle, "config.json")
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		return err
	}
	process := config["process"].(map[string]any)
	process["terminal"], process["args"] = false, args
	config["root"] = map[string]any{"path": "rootfs", "readonly": false}
	mounts, err := showHost(root)
	if err != nil {
		return err
	}
	mounts = append(mounts, map[string]any{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}, bind(dir, "rw"))
	config["mounts"] = append(config["mounts"].([]any), mounts...)
	if data, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// showHost makes the links of a root and lists the binds.
func showHost(root string) ([]any, error) {
	var mounts []any
	for _, path := range shown {
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			continue
		case info.IsDir():
			mounts = append(mounts, bind(path, "ro"))
			continue
		case info.Mode()&os.ModeSymlink == 0:
			continue
		}
		target, err := os.Readlink(path)
		if err == nil {
			err = os.Symlink(target, root+path)
		}
		if err != nil {
			return nil, err
		}
	}
	return mounts, nil
}

func bind(path, access string) map[string]any {
	return map[string]any{"destination": path, "type": "bind", "source": path, "options": []string{"rbind", access}}
}
