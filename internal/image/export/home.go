package export

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/bothy-dev/bothy/internal/archive"
	"github.com/bothy-dev/bothy/spec"
)

func (e *exporter) homeDir(there bool) error {
	unused, err := e.unusedPlaces()
	if err != nil {
		return err
	}
	return archive.Stream(e.Home, archive.WriteOptions{Name: "."}, func(r io.Reader) error {
		return e.homeEntries(tar.NewReader(r), there, unused)
	})
}

// homeEntries copies an archive of the home. The image's user owns its files.
func (e *exporter) homeEntries(tr *tar.Reader, there bool, unused map[string]bool) error {
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := strings.Trim(path.Clean("/"+h.Name), "/")
		if unused[name] {
			continue
		}
		if strings.HasPrefix(path.Base(name), whiteout) {
			return spec.Errorf(spec.ErrDenied, "~/%s: an image cannot have a file of this name: it would remove another", name).
				WithHint("rename it in the sandbox, and save that again")
		}
		if e.bytes += h.Size; e.bytes > maxBytes {
			return spec.Errorf(spec.ErrDenied, "the files have more than %d GiB", int64(maxBytes)>>30)
		}
		out := &tar.Header{
			Typeflag: h.Typeflag, Name: path.Join(e.home, name), Mode: h.Mode & 0o777, ModTime: h.ModTime, Size: h.Size, Linkname: h.Linkname,
			Uid: e.Root.Account.ImageUID, Gid: e.Root.Account.ImageGID,
		}
		if name == "" {
			out.Mode = e.homeMode(out.Mode)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			out.Name += "/"
		case tar.TypeLink:
			out.Linkname, out.Size = path.Join(e.home, path.Clean(h.Linkname)), 0
		case tar.TypeSymlink:
			out.Mode = 0o777
		}
		if err := e.writeHeader(out); err != nil {
			return err
		}
		if _, err := io.Copy(e.tw, tr); err != nil {
			return err
		}
		if name == "" && there {
			if err := e.writeMark(out.Name + opaque); err != nil {
				return err
			}
		}
	}
}

// ownMode is the mode of the directory on the host that contains a sandbox's home. Other
// users of the host may not look into it.
const ownMode = 0o700

// homeMode is the mode of the home in the image: the image's own, unless it was changed
// inside the sandbox.
func (e *exporter) homeMode(mode int64) int64 {
	if n, err := e.Base.Lookup(e.home); err == nil && n.IsDir() && mode == ownMode {
		return int64(n.Mode & 0o777)
	}
	return mode
}

// unusedPlaces are the directories of the home that were made only as mount points, and
// that contain nothing else.
func (e *exporter) unusedPlaces() (map[string]bool, error) {
	home, err := os.OpenRoot(e.Home)
	if err != nil {
		return nil, err
	}
	defer home.Close()
	unused := map[string]bool{}
	for _, place := range e.Places {
		name, ok := strings.CutPrefix(path.Clean("/"+place), path.Clean(e.Root.Account.Home)+"/")
		for ; ok && name != "." && isUnused(home, name, unused); name = path.Dir(name) {
			unused[name] = true
		}
	}
	return unused, nil
}

// isUnused reports whether a directory contains nothing to keep, or a file is empty.
func isUnused(home *os.Root, name string, unused map[string]bool) bool {
	info, err := home.Lstat(name)
	if err != nil || !info.IsDir() {
		return err == nil && info.Mode().IsRegular() && info.Size() == 0
	}
	kids, err := fs.ReadDir(home.FS(), name)
	for _, k := range kids {
		if !unused[path.Join(name, k.Name())] {
			return false
		}
	}
	return err == nil
}
