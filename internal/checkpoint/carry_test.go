package checkpoint

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/layer"
)

// carry exports a checkpoint.
func (b *box) carry(p Point) []byte {
	b.t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	must(b.t, b.Export(p, w))
	must(b.t, w.Close())
	return out.Bytes()
}

func newShelf(t *testing.T) Shelf {
	t.Helper()
	s := Shelf{filepath.Join(t.TempDir(), "checkpoints")}
	return s
}

// TestCarry checks that a checkpoint with contents in several packs arrives whole, and without
// the contents of others.
func TestCarry(t *testing.T) {
	b := newBox(t)
	b.write("a/one", "first")
	b.write("large", strings.Repeat("x", 3*(64<<10))+"end")
	must(t, os.Link(b.path("large"), b.path("again")))
	must(t, os.Symlink("a/one", b.path("link")))
	b.write("secret", "removed before")
	must(t, os.Truncate(b.path("large"), 8*64<<10)) // with a hole
	b.settle()
	b.keep("")
	must(t, os.Remove(b.path("secret")))
	b.write("b", "second")
	save := filepath.Join(t.TempDir(), "save")
	must(t, os.Mkdir(save, 0o700))
	must(t, os.WriteFile(filepath.Join(save, "pages.img"), []byte("the layer"), 0o600))
	m, err := b.Begin("", "test")
	must(t, err)
	must(t, m.Take(b.sources()))
	must(t, layer.Link(save, m.LayerPlace()))
	m.Point().Layer = int64(len("the layer"))
	p, err := m.End(nil)
	must(t, err)

	file := b.carry(p)
	if bytes.Contains(file, []byte("removed before")) {
		t.Error("it holds what another checkpoint has")
	}
	s := newShelf(t)
	got, err := s.Import(tar.NewReader(bytes.NewReader(file)))
	must(t, err)
	if got.Number != 1 || got.Name != "1" || got.Cause != "test" || got.Names != p.Names || got.Size != p.Size || s.Head() != 1 {
		t.Errorf("%+v, of %+v", got, p)
	}
	data, err := os.ReadFile(filepath.Join(s.Layer(got), "pages.img"))
	if err != nil || string(data) != "the layer" {
		t.Errorf("the layer holds %q, %v", data, err)
	}
	to := filepath.Join(t.TempDir(), "home")
	must(t, s.Fill(got, []Source{{Name: "home", Dir: to}}))
	if got, want := look(t, to), look(t, b.dir); got != want {
		t.Errorf("there is\n%s\nwant\n%s", got, want)
	}
	again := newShelf(t)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	must(t, s.Export(got, w))
	must(t, w.Close())
	_, err = again.Import(tar.NewReader(&out))
	must(t, err)
}

// TestCarryDamaged checks that Import refuses a changed archive.
func TestCarryDamaged(t *testing.T) {
	b := newBox(t)
	b.write("one", "first")
	b.settle()
	p := b.keep("named")
	type entry struct {
		name string
		data []byte
	}
	var good []entry
	eachCarried(t, b.carry(p), func(h *tar.Header, data []byte) { good = append(good, entry{h.Name, data}) })
	for name, change := range map[string]func([]entry) []entry{
		"nothing":        func([]entry) []entry { return nil },
		"no contents":    func(l []entry) []entry { return l[:2] },
		"fewer contents": func(l []entry) []entry { l[2].data = l[2].data[:2]; return l },
		"another list": func(l []entry) []entry {
			l[1].data = bytes.Replace(l[1].data, []byte("one"), []byte("two"), 1)
			return l
		},
		"another order": func(l []entry) []entry { l[0], l[1] = l[1], l[0]; return l },
		"another number": func(l []entry) []entry {
			l[0].data = bytes.Replace(l[0].data, []byte(`"number":1`), []byte(`"number":2`), 1)
			return l
		},
		"a name for a path": func(l []entry) []entry {
			l[0].data = bytes.Replace(l[0].data, []byte(`"named"`), []byte(`"../x"`), 1)
			return l
		},
		"a layer that leads out": func(l []entry) []entry { return append(l, entry{"layer/../../x", []byte("x")}) },
		"something more":         func(l []entry) []entry { return append(l, entry{"more", []byte("x")}) },
	} {
		t.Run(name, func(t *testing.T) {
			list := make([]entry, 0, len(good))
			for _, e := range good {
				list = append(list, entry{e.name, bytes.Clone(e.data)})
			}
			var out bytes.Buffer
			w := tar.NewWriter(&out)
			for _, e := range change(list) {
				must(t, w.WriteHeader(entryHeader(e.name, int64(len(e.data)))))
				_, err := w.Write(e.data)
				must(t, err)
			}
			must(t, w.Close())
			if _, err := newShelf(t).Import(tar.NewReader(&out)); !errors.Is(err, manifest.ErrDamaged) {
				t.Error(err)
			}
		})
	}
}

// eachCarried calls do for each file of an exported checkpoint.
func eachCarried(t *testing.T, carried []byte, do func(h *tar.Header, data []byte)) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(carried)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		data, err := io.ReadAll(r)
		must(t, err)
		do(h, data)
	}
}

// TestCarryHoles checks that no file of the archive has holes: a file of a few bytes could have
// any size.
func TestCarryHoles(t *testing.T) {
	b := newBox(t)
	b.write("one", "first")
	b.settle()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	eachCarried(t, b.carry(b.keep("named")), func(h *tar.Header, data []byte) {
		if h.Name == carriedPack { // as GNU tar writes a file that is one hole
			data = append([]byte("1\n8388608\n0\n"), make([]byte, 512-12)...)
			h.PAXRecords = map[string]string{"XXX.sparse.major": "1", "XXX.sparse.minor": "0", "XXX.sparse.name": carriedPack, "XXX.sparse.realsize": "8388608"}
			h.Size, h.Format = int64(len(data)), tar.FormatPAX
		}
		must(t, w.WriteHeader(h))
		_, err := w.Write(data)
		must(t, err)
	})
	must(t, w.Close())
	holes := bytes.ReplaceAll(out.Bytes(), []byte("XXX.sparse"), []byte("GNU.sparse"))
	if _, err := newShelf(t).Import(tar.NewReader(bytes.NewReader(holes))); !errors.Is(err, manifest.ErrDamaged) {
		t.Error(err)
	}
}
