package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/hardlinks"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// overlayOptions keep the layer plain. userxattr stores the overlay's marks where a user may read
// and write them. It also turns off features that would hide parts of the layer from a walk:
// files without their content (metacopy) and renamed directories (redirect_dir).
const overlayOptions = "userxattr,index=off,xino=off"

// overlay mounts the layer of the n-th workspace over a pinned directory, and returns the path of
// the merged view.
func (b *Builder) overlay(m spec.Mount, lower string, n int, scratch string) (string, error) {
	layer := review.Layer{Dir: b.Dir.Review(n)}
	at := filepath.Join(scratch, "review", strconv.Itoa(n))
	if err := os.MkdirAll(at, 0o700); err != nil {
		return "", err
	}
	if err := keepsAttributes(layer.Work()); err != nil {
		return "", unreviewable(m, fmt.Errorf("%s keeps no attributes of files: %w", b.Dir.Dir, err))
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
		// By its descriptor: a path may contain characters with a meaning in options.
		options = append(options, fmt.Sprintf("%s=/proc/self/fd/%d", d.name, fd))
	}
	if err := unix.Mount("overlay", at, "overlay", unix.MS_NOSUID|unix.MS_NODEV, strings.Join(options, ",")); err != nil {
		return "", unreviewable(m, fmt.Errorf("mount an overlay: %w", err))
	}
	return at, b.cutLinks(layer, lower, at)
}

// cutLinks makes hard links to one host file separate files in a newly mounted overlay.
func (b *Builder) cutLinks(layer review.Layer, lower, at string) error {
	lock, err := store.WaitLock(b.Dir.ReviewLock())
	if err != nil {
		return err
	}
	defer lock.Unlock()
	for _, w := range review.Of(b.Spec, b.Dir.Review) {
		if w.Layer == layer {
			return hardlinks.Cut(w, lower, at)
		}
	}
	return nil
}

// keepsAttributes tries the attribute with which an overlay marks directories: a kernel that cannot
// set it only warns at the mount, and fails later.
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
