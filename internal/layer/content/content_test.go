package content

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// number and message are fields of a protocol buffer.
func number(field int, n uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(field)<<3), n)
}

func message(field int, parts ...[]byte) []byte {
	b := bytes.Join(parts, nil)
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(field)<<3|2), uint64(len(b))), b...)
}

// regular returns a file of a layer, made of parts.
func regular(name string, size uint64, parts ...part) (tar.Header, []byte) {
	b := binary.LittleEndian.AppendUint64(nil, size)
	for _, p := range parts {
		for _, n := range []uint64{p.start, p.end, p.at} {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
	}
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o640, Uid: 7, Gid: 8, Size: int64(len(b)), ModTime: time.Unix(1_700_000_000, 0)}, b
}

// save holds the parts that a save is written from.
type save struct {
	tree     bytes.Buffer
	tw       *tar.Writer
	meta     []byte
	pages    []byte
	manifest func(tarEnd, metaEnd uint64) []byte
}

func newSave() *save {
	s := &save{}
	s.tw = tar.NewWriter(&s.tree)
	s.manifest = func(tarEnd, metaEnd uint64) []byte {
		id := message(1, message(1, []byte("c")), message(2, []byte("/")))
		kept := message(1, message(1, []byte("c")), message(2, []byte("/var/lib/docker"))) // not a part of the root
		return bytes.Join([][]byte{
			number(fieldVersion, 1), message(2, []byte("runsc")), number(fieldPageSize, 4096), message(fieldEndian, []byte("little")),
			message(fieldMemories, kept, number(fieldStart, 1<<40), number(fieldEnd, 1<<41), number(fieldPages, 1<<40)),
			message(fieldTrees, kept, number(fieldStart, 1<<40), number(fieldEnd, 1<<41)),
			message(fieldMemories, id, number(fieldEnd, metaEnd), number(fieldPages, 4096)),
			message(fieldTrees, id, number(fieldEnd, tarEnd)),
		}, nil)
	}
	return s
}

func (s *save) add(t testing.TB, h tar.Header, content []byte) {
	t.Helper()
	must(t, s.tw.WriteHeader(&h))
	_, err := s.tw.Write(content)
	must(t, err)
}

// hold puts a piece of the memory into the pages, or leaves it out.
func (s *save) hold(from, to uint64, content []byte) {
	parts := [][]byte{number(fieldFrom, from), number(fieldTo, to), number(3, 1)}
	if content != nil {
		parts = append(parts, number(fieldCommitted, 1))
	}
	s.meta = append(s.meta, message(fieldRanges, parts...)...)
	s.pages = append(s.pages, content...)
}

func (s *save) write(t testing.TB) string {
	t.Helper()
	must(t, s.tw.Close())
	meta := append(number(1, 1), s.meta...)
	meta = append(binary.LittleEndian.AppendUint64(nil, uint64(len(meta))), meta...)
	dir := t.TempDir()
	for name, b := range map[string][]byte{
		"fscheckpoint.pb": s.manifest(uint64(s.tree.Len()), uint64(len(meta))), "multitar.img": s.tree.Bytes(),
		"pages_meta.img": meta, "pages.img": append(make([]byte, 4096), s.pages...),
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return dir
}

// TestOpen checks that a layer's files are read as they are, with contents in pieces and with
// holes.
func TestOpen(t *testing.T) {
	s := newSave()
	a, b := bytes.Repeat([]byte("a"), 4096), bytes.Repeat([]byte("b"), 8192)
	s.hold(0, 4096, a)
	s.hold(4096, 12288, nil)
	s.hold(16384, 24576, b)
	s.add(t, tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}, nil)
	s.add(t, tar.Header{Typeflag: tar.TypeDir, Name: "./d/", Mode: 0o1777, PAXRecords: map[string]string{xattrPrefix + opaqueXattr: "y", xattrPrefix + "user.x": "v"}}, nil)
	h, content := regular("./d/f", 30_000, part{0, 4096, 16384}, part{4096, 8192, 0}, part{12288, 16384, 4096}, part{20480, 24576, 20480})
	s.add(t, h, content)
	s.add(t, tar.Header{Typeflag: tar.TypeLink, Name: "./g", Linkname: "./d/f"}, nil)
	s.add(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "./l", Linkname: "../x", PAXRecords: map[string]string{xattrPrefix + "system.posix_acl_access": "AgAAAA"}}, nil)
	s.add(t, tar.Header{Typeflag: tar.TypeChar, Name: "./gone"}, nil)
	s.add(t, tar.Header{Typeflag: tar.TypeChar, Name: "./null", Devmajor: 1, Devminor: 3}, nil)
	l, err := Open(s.write(t))
	must(t, err)
	defer l.Close()
	if len(l.Files) != 7 || l.Files[""] == nil {
		t.Errorf("%v", l.Files)
	}
	if d := l.Files["d"]; !d.Opaque || d.Mode != 0o1777 || len(d.Xattrs) != 1 || d.Xattrs["user.x"] != "v" {
		t.Errorf("%+v", d)
	}
	f := l.Files["d/f"]
	if f != l.Files["g"] || f.Mode != 0o640 || f.UID != 7 || f.GID != 8 || f.Mtime.Unix() != 1_700_000_000 {
		t.Errorf("%+v", f)
	}
	if link := l.Files["l"]; link.Target != "../x" || link.Xattrs["system.posix_acl_access"] != "\x02\x00\x00\x00" {
		t.Errorf("%+v", link)
	}
	if !l.Files["gone"].Gone || l.Files["null"].Gone {
		t.Error("what is a device is gone, or what is gone a device")
	}
	want := bytes.Join([][]byte{b[:4096], a, make([]byte, 4096), make([]byte, 4096), make([]byte, 4096), b[:4096], make([]byte, 30_000-24576)}, nil)
	got, err := io.ReadAll(l.Open(f))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
}

// TestOpenRefuses checks that Open refuses invalid and truncated saves.
func TestOpenRefuses(t *testing.T) {
	for name, change := range map[string]func(s *save){
		"a way out":          func(s *save) { s.add(t, tar.Header{Typeflag: tar.TypeDir, Name: "./../x/"}, nil) },
		"a link to nothing":  func(s *save) { s.add(t, tar.Header{Typeflag: tar.TypeLink, Name: "./a", Linkname: "./b"}, nil) },
		"a link to itself":   func(s *save) { s.add(t, tar.Header{Typeflag: tar.TypeLink, Name: "./a", Linkname: "./a"}, nil) },
		"no description":     func(s *save) { s.add(t, tar.Header{Typeflag: tar.TypeReg, Name: "./a", Size: 3}, []byte("abc")) },
		"parts out of order": func(s *save) { h, b := regular("./a", 1, part{4096, 8192, 0}, part{0, 4096, 0}); s.add(t, h, b) },
		"a part of nothing":  func(s *save) { h, b := regular("./a", 1, part{4096, 4096, 0}); s.add(t, h, b) },
		"a part too far":     func(s *save) { h, b := regular("./a", 1, part{0, 1 << 63, 1 << 63}); s.add(t, h, b) },
		"a size below zero":  func(s *save) { h, b := regular("./a", 1<<63); s.add(t, h, b) },
		"memory twice":       func(s *save) { s.hold(0, 4096, make([]byte, 4096)); s.hold(0, 4096, make([]byte, 4096)) },
		"another version":    func(s *save) { s.manifest = func(_, _ uint64) []byte { return number(fieldVersion, 2) } },
		"no memory":          func(s *save) { s.manifest = func(_, _ uint64) []byte { return nil } },
		"no message":         func(s *save) { s.manifest = func(_, _ uint64) []byte { return []byte{0xff} } },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSave()
			change(s)
			if l, err := Open(s.write(t)); err == nil {
				t.Errorf("taken as %v", l.Files)
			}
		})
	}
	s := newSave()
	s.hold(0, 4096, []byte("short"))
	h, b := regular("./a", 4096, part{0, 4096, 0})
	s.add(t, h, b)
	l, err := Open(s.write(t))
	must(t, err)
	if got, err := io.ReadAll(l.Open(l.Files["a"])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func FuzzOpen(f *testing.F) {
	s := newSave()
	s.hold(0, 4096, []byte(strings.Repeat("x", 4096)))
	h, b := regular("./a", 5000, part{0, 4096, 0})
	s.add(f, h, b)
	dir := s.write(f)
	var files [4][]byte
	names := []string{"fscheckpoint.pb", "multitar.img", "pages_meta.img", "pages.img"}
	for i, name := range names {
		var err error
		files[i], err = os.ReadFile(filepath.Join(dir, name))
		must(f, err)
	}
	f.Add(files[0], files[1], files[2])
	f.Fuzz(func(t *testing.T, manifest, tree, meta []byte) {
		dir := t.TempDir()
		for i, b := range [][]byte{manifest, tree, meta, files[3]} {
			must(t, os.WriteFile(filepath.Join(dir, names[i]), b, 0o600))
		}
		l, err := Open(dir)
		if err != nil {
			return
		}
		defer l.Close()
		for _, f := range l.Files {
			if _, err := io.Copy(io.Discard, io.LimitReader(l.Open(f), 1<<20)); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, spec.ErrDenied) {
				t.Error(err)
			}
		}
	})
}
