package checkpoint

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/packfile"
	"github.com/bothy-dev/bothy/internal/store"
)

// Parts of an exported checkpoint, in this order: its description, its list, one pack with all
// contents, the files of its root layer.
const (
	carriedPack  = "contents"
	carriedLayer = layerName + "/"
)

// carriedNumber is the number of an imported checkpoint, and of its pack.
const (
	carriedNumber = 1
	carriedName   = "1"
)

// Export writes a checkpoint to an archive, with all its contents. The caller makes sure that the
// checkpoint is not removed meanwhile.
func (s Shelf) Export(p Point, to *tar.Writer) error {
	trees, packs, err := s.readyFor(p, everyTree)
	if err != nil {
		return err
	}
	defer packs.Close()
	contents := gather(trees)
	layerDir := s.Layer(p)
	p.Size, p.Memory = p.Size-p.Memory, 0 // the memory image stays here: only this build can read it
	p.Number, p.Parent, p.Packs, p.Bytes, p.Unasked = carriedNumber, 0, nil, p.Layer+contents.size, false
	if CheckName(p.Name) != nil { // it has only a number for a name, and now another number
		p.Name = carriedName
	}
	if contents.size > 0 {
		p.Packs = []int64{carriedNumber}
	}
	about, err := json.Marshal(p)
	if err != nil {
		return err
	}
	list := manifest.Encode(trees)
	p.Bytes += int64(len(list))
	if err := putEntry(to, aboutName, int64(len(about)), strings.NewReader(string(about))); err != nil {
		return err
	}
	if err := putEntry(to, manifestName, int64(len(list)), strings.NewReader(string(list))); err != nil {
		return err
	}
	if err := to.WriteHeader(entryHeader(carriedPack, contents.size)); err != nil {
		return err
	}
	if err := contents.writeTo(to, packs); err != nil {
		return fmt.Errorf("write contents: %w", err)
	}
	return exportLayer(layerDir, to)
}

func entryHeader(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, Format: tar.FormatPAX}
}

func putEntry(to *tar.Writer, name string, size int64, data io.Reader) error {
	if err := to.WriteHeader(entryHeader(name, size)); err != nil {
		return err
	}
	n, err := io.Copy(to, io.LimitReader(data, size))
	if err == nil && n != size {
		err = manifest.ErrDamaged
	}
	return err
}

// contents are the contents of several packs that are copied into one.
type contents struct {
	parts []part
	size  int64
}

type part struct {
	from manifest.Content // their place now
	at   int64            // their place in the new pack
}

// gather puts all contents of trees into one pack, and clears the state in which each file was
// seen.
func gather(trees []manifest.Tree) (c contents) {
	for _, t := range trees {
		for i := range t.Entries {
			e := &t.Entries[i]
			e.Seen = manifest.Seen{Fresh: true}
			if !e.HasData() || len(e.Content.Pieces) == 0 {
				e.Content = manifest.Content{}
				continue
			}
			n := e.Content.Stored()
			c.size = packfile.Align(c.size, n)
			c.parts = append(c.parts, part{e.Content, c.size})
			e.Content.Pack, e.Content.Offset = carriedNumber, c.size
			c.size += n
		}
	}
	return c
}

func (c contents) writeTo(to io.Writer, packs *packfile.Packs) error {
	at := int64(0)
	for _, p := range c.parts {
		if _, err := io.CopyN(to, packfile.Zeros{}, p.at-at); err != nil {
			return err
		}
		f, err := packs.Open(p.from.Pack)
		if err != nil {
			return err
		}
		n := p.from.Stored()
		if _, err := io.CopyN(to, io.NewSectionReader(f, p.from.Offset, n), n); err != nil {
			return err
		}
		at = p.at + n
	}
	return nil
}

// exportLayer writes the files of a saved root layer; "" means none.
func exportLayer(dir string, to *tar.Writer) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		f, err := store.OpenRegular(filepath.Join(dir, e.Name()), unix.O_NOFOLLOW)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			err = putEntry(to, carriedLayer+e.Name(), info.Size(), f)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// maxAbout bounds the description of a checkpoint, in bytes.
const maxAbout = 1 << 20

// Import reads a checkpoint from an archive into an empty shelf. It reads the archive to its end.
// If it fails, the caller must delete the shelf.
func (s Shelf) Import(from *tar.Reader) (Point, error) {
	var p Point
	lock, err := s.Lock()
	if err != nil {
		return p, err
	}
	defer lock.Unlock()
	dir := s.Path(carriedNumber)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return p, err
	}
	about, err := nextEntry(from, aboutName, maxAbout)
	if err == nil {
		err = json.Unmarshal(about, &p)
	}
	if err != nil {
		return p, err
	}
	if p.Version != version || p.Memory != 0 || p.Number != carriedNumber || p.Name != carriedName && CheckName(p.Name) != nil {
		return p, manifest.ErrDamaged
	}
	list, err := nextEntry(from, manifestName, manifest.MaxSize)
	if err != nil {
		return p, err
	}
	if err := writeFile(filepath.Join(dir, manifestName), list); err != nil {
		return p, err
	}
	if err := s.importContents(from, p); err != nil {
		return p, err
	}
	if p.Layer, err = importLayer(from, filepath.Join(dir, layerName)); err != nil {
		return p, err
	}
	if err := store.WriteJSON(filepath.Join(dir, aboutName), p); err != nil {
		return p, err
	}
	_, packs, err := s.readyFor(p, everyTree)
	if err != nil {
		return p, err
	}
	packs.Close()
	return p, store.WriteJSON(filepath.Join(s.Dir, headName), s.headAt(carriedNumber))
}

// nextHeader reads the header of the next file. It refuses a file with holes, which Export does not
// write: a small archive could claim one that fills any disk.
func nextHeader(from *tar.Reader) (*tar.Header, error) {
	h, err := from.Next()
	if err != nil {
		return nil, err
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return nil, manifest.ErrDamaged
		}
	}
	return h, nil
}

// nextEntry reads the next file, which must be small and have this name.
func nextEntry(from *tar.Reader, name string, most int64) ([]byte, error) {
	h, err := nextHeader(from)
	if err != nil {
		return nil, endless(err)
	}
	if h.Name != name || h.Typeflag != tar.TypeReg || h.Size > most {
		return nil, manifest.ErrDamaged
	}
	return io.ReadAll(from)
}

// endless replaces an early end of the archive by an error.
func endless(err error) error {
	if errors.Is(err, io.EOF) {
		return manifest.ErrDamaged
	}
	return err
}

func (s Shelf) importContents(from *tar.Reader, p Point) error {
	h, err := nextHeader(from)
	if err != nil {
		return endless(err)
	}
	if h.Name != carriedPack || h.Typeflag != tar.TypeReg || (h.Size > 0) != (len(p.Packs) > 0) {
		return manifest.ErrDamaged
	}
	if h.Size == 0 {
		return nil
	}
	if err := receive(s.packPath(carriedNumber), from); err != nil {
		return err
	}
	return store.SyncDir(filepath.Join(s.Dir, packsName))
}

// receive writes a file of the archive.
func receive(path string, from io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, from); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// importLayer writes the files of a saved root layer, if there are any, and returns their size.
func importLayer(from *tar.Reader, dir string) (size int64, err error) {
	for {
		h, err := nextHeader(from)
		if errors.Is(err, io.EOF) {
			if size == 0 {
				return 0, nil
			}
			return size, store.SyncDir(dir)
		}
		if err != nil {
			return 0, err
		}
		name, ok := strings.CutPrefix(h.Name, carriedLayer)
		if !ok || h.Typeflag != tar.TypeReg || name == "" || strings.ContainsAny(name, "/\x00") || name[0] == '.' {
			return 0, manifest.ErrDamaged
		}
		if size == 0 {
			if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
				return 0, err
			}
		}
		if err := receive(filepath.Join(dir, name), from); err != nil {
			return 0, err
		}
		size += h.Size
	}
}
