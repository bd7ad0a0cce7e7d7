package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/trust"
)

// TrustName is the role of the program that distributions run after they have written a bundle of
// trusted authorities.
const TrustName = "bothy-trust"

// maxBundle bounds a bundle that is read.
const maxBundle = 32 << 20

// renewTrust adds the sandbox's own authority to every bundle that was written inside, in the tree at root.
func renewTrust(root string) error {
	authority, err := os.ReadFile(filepath.Join(root, trust.Own))
	if err != nil {
		return err
	}
	original, err := os.Stat(filepath.Join(root, trust.Bundle))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range trust.Bundles {
		if err := renewBundle(filepath.Join(root, "etc", name), original, authority); err != nil {
			errs = append(errs, fmt.Errorf("put the sandbox's authority into /etc/%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// renewBundle skips a bundle that is still the keeper's, which is the original under another name.
func renewBundle(path string, original os.FileInfo, authority []byte) error {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxBundle {
		return nil //nolint:nilerr // nothing of ours
	}
	if info.Size() == original.Size() && info.ModTime().Equal(original.ModTime()) {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	bundle, err := io.ReadAll(io.LimitReader(f, maxBundle))
	if err != nil {
		return err
	}
	temp := path + ".bothy"
	_ = os.Remove(temp)
	out, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = out.Write(trust.Renew(bundle, authority))
	err = errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
	}
	return err
}
