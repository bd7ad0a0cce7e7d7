package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// overlayOptions keep the layer plain. userxattr puts the overlay's notes where a
// user may read and write them, and turns off what would make a walk through the
// layer tell less than all: files without their content (metacopy) and directories
// under another name (redirect_dir).
const overlayOptions = "userxattr,index=off,xino=off"

// overlay mounts the layer of the n-th workspace over a directory that is pinned,
// and gives the place where both are seen as one.
func (k *Keeper) overlay(m spec.Mount, lower string, n int, scratch string) (string, error) {
	layer := review.Layer{Dir: k.dir.Review(n)}
	at := filepath.Join(scratch, "review", strconv.Itoa(n))
	if err := os.MkdirAll(at, 0o700); err != nil {
		return "", err
	}
	if err := keepsAttributes(layer.Work()); err != nil {
		return "", unreviewable(m, fmt.Errorf("%s keeps no attributes of files: %w", k.dir.Dir, err))
	}
	options := []string{overlayOptions}
	for _, d := range []struct{ name, path string }{
		{"lowerdir", lower}, {"upperdir", layer.Upper()}, {"workdir", layer.Work()},
	} {
		fd, err := unix.Open(d.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", fmt.Errorf("open %s: %w", d.path, err)
		}
		defer unix.Close(fd)
		// By its descriptor: a path may have characters in it that mean something
		// in options.
		options = append(options, fmt.Sprintf("%s=/proc/self/fd/%d", d.name, fd))
	}
	if err := unix.Mount("overlay", at, "overlay", unix.MS_NOSUID|unix.MS_NODEV, strings.Join(options, ",")); err != nil {
		return "", unreviewable(m, fmt.Errorf("mount an overlay: %w", err))
	}
	return at, k.cutLinks(layer, lower, at)
}

// cutLinks has names of the same file of the host's be different ones in an overlay that was
// just mounted.
func (k *Keeper) cutLinks(layer review.Layer, lower, at string) error {
	lock, err := store.WaitLock(k.dir.ReviewLock())
	if err != nil {
		return err
	}
	defer lock.Unlock()
	for _, w := range review.Of(k.spec, k.dir.Review) {
		if w.Layer == layer {
			return w.CutLinks(lower, at)
		}
	}
	return nil
}

// keepsAttributes tries what an overlay marks directories with: the kernel only
// warns where it cannot, and fails later.
func keepsAttributes(dir string) error {
	const name = "user.bothy.probe"
	if err := unix.Setxattr(dir, name, []byte("y"), 0); err != nil {
		return err
	}
	return unix.Removexattr(dir, name)
}

func unreviewable(m spec.Mount, err error) error {
	return (&spec.Error{Class: spec.ErrSandbox, Op: "keep changes in " + m.Source + " for review", Err: err}).
		WithHint("it takes Linux 5.11 with overlayfs, and a state directory on ext4, xfs, btrfs or tmpfs (BOTHY_HOME); or use --workspace %s", spec.WorkspaceLive)
}
