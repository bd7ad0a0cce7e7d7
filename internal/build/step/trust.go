package step

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	continuity "github.com/containerd/continuity/fs"

	"github.com/bothy-dev/bothy/internal/trust"
)

// maxBundle bounds a bundle of authorities, in bytes.
const maxBundle = 32 << 20

// isTrust reports whether a path would make users of the image trust the sandbox's own authority. It is
// a link to Bothy's files, which would be dangling in an image, or a bundle that was written inside.
func (p *packer) isTrust(name string) bool {
	if !p.image {
		return false
	}
	full := filepath.Join(p.root, name)
	if to, err := os.Readlink(full); err == nil {
		return to == trust.Bundle || to == trust.Own || to == trust.KnownHosts || to == filepath.Base(trust.Own) && filepath.Base(name) == trust.Hash+".0"
	}
	rel, ok := strings.CutPrefix(name, "/etc/")
	if !ok || !slices.Contains(trust.Bundles, rel) {
		return false
	}
	info, err := os.Lstat(full)
	return err == nil && info.Mode().IsRegular() && info.Size() <= maxBundle
}

// packBundle packs a bundle of authorities as a file. It leaves out the sandbox's own authority,
// because users of the image should not trust it. A bundle with only that authority is
// left out.
func (p *packer) packBundle(name string, info fs.FileInfo) error {
	h, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	from := filepath.Join(p.root, name)
	if info.Mode()&fs.ModeSymlink != 0 {
		if to, err := os.Readlink(from); err != nil || to != trust.Bundle {
			return err
		}
		from = filepath.Join(p.root, trust.Bundle)
		h.Typeflag, h.Mode = tar.TypeReg, 0o644
	}
	text, err := readBundle(from)
	if err != nil {
		return err
	}
	h.Name, h.Format, h.Size = "."+name, tar.FormatPAX, int64(len(text))
	h.Uname, h.Gname = "", ""
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	_, err = p.tw.Write(text)
	return err
}

// readBundle returns the authorities of a file except the sandbox's own.
func readBundle(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxBundle))
	return trust.Renew(text, nil), err
}

// giveWay removes Bothy's link to the sandbox's authorities at the destination of a copy.
// The link is not part of the image, and its target cannot be written.
func (at root) giveWay(dest string) error {
	dir, base := filepath.Split(filepath.Clean(dest))
	dir, err := continuity.RootPath(string(at), dir)
	if err != nil {
		return err
	}
	p := filepath.Join(dir, base)
	if to, err := os.Readlink(p); err != nil || to != trust.Bundle {
		return nil //nolint:nilerr // there is none
	}
	return os.Remove(p)
}
