package savedtemplate

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/bothy-dev/bothy/internal/archive"
	"github.com/bothy-dev/bothy/internal/sums"
	"github.com/bothy-dev/bothy/spec"
)

// Export writes a template as a tar archive. A slow reader does not block other commands.
func (s Shelf) Export(name string, w io.Writer) error {
	r, err := s.openReading(name)
	if err != nil {
		return err
	}
	defer r.endReading()
	return archive.Write(w, r.filePath("."), archive.WriteOptions{Name: "."})
}

// Import reads an archive of Export to its end. Anyone may have made it, and gVisor gets its layer. The
// name replaces the one in the archive, unless it is empty.
func (s Shelf) Import(r io.Reader, name string) (Template, error) {
	return s.addTemplate(name, func(dir string) (Template, error) {
		if err := extract(r, dir); err != nil {
			return Template{}, err
		}
		if _, err := io.Copy(io.Discard, r); err != nil { // an archive may end before its file
			return Template{}, err
		}
		if err := onlyOurs(dir); err != nil {
			return Template{}, err
		}
		t, err := s.readAbout(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return t, spec.Errorf(spec.ErrUsage, "the archive holds no template: it has no %s", aboutName).WithHint("bothy save -o FILE makes one")
		}
		if err == nil {
			err = t.checkFields()
		}
		if err == nil && name == "" {
			t.Name, err = NewName(t.Name)
		}
		return t, err
	})
}

// maxPlaces is far more than the mounts of a sandbox.
const maxPlaces = 10_000

// maxAgent is longer than the names of agents, in bytes.
const maxAgent = 64

// layerFiles are the files of a saved root layer. gVisor would interpret others.
var layerFiles = []string{"fscheckpoint.pb", "multitar.img", "pages.img", "pages_meta.img", sums.Name}

// maxAbout is far more than a template's description takes, in bytes.
const maxAbout = 1 << 20

// onlyOurs rejects an archive with more files than a template has: gVisor would get them.
func onlyOurs(dir string) error {
	top, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range top {
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch name := e.Name(); {
		case name == aboutName && e.Type().IsRegular() && info.Size() <= maxAbout:
		case (name == layerName || name == homeName) && e.IsDir():
		case name == sums.Name && e.Type().IsRegular():
		case name == lockName && e.Type().IsRegular(): // the lock of the command that makes it
		default:
			return spec.Errorf(spec.ErrUsage, "the archive holds no template: it has %q", name)
		}
	}
	files, err := os.ReadDir(filepath.Join(dir, layerName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range files {
		if !e.Type().IsRegular() || !slices.Contains(layerFiles, e.Name()) {
			return spec.Errorf(spec.ErrUsage, "the archive holds no template: it has %q in its layer", e.Name())
		}
	}
	return err
}

// extract writes an archive's files into a directory. If the archive is a template, archive.Write made
// it.
func extract(r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := archive.Extract(r, root, archive.ExtractOptions{NoHoles: true}); err != nil {
		if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
			return spec.Errorf(spec.ErrUsage, "this is not a complete archive of a template: %w", err)
		}
		return err
	}
	return nil
}

// copyTree copies a directory, in which a sandbox may have made anything, into another.
func copyTree(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	return archive.Stream(from, archive.WriteOptions{Name: "."}, func(r io.Reader) error { return extract(r, to) })
}
