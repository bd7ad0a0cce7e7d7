package sftp

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// client speaks with a server in this process.
type client struct {
	t   *testing.T
	to  io.WriteCloser
	in  io.Reader
	end chan error
	id  uint32
}

func connect(t *testing.T) *client {
	t.Helper()
	r, to := io.Pipe()
	in, w := io.Pipe()
	c := &client{t: t, to: to, in: in, end: make(chan error, 1)}
	go func() {
		err := Serve(r, w)
		r.Close() // a client that writes more gets an error
		w.Close()
		c.end <- err
	}()
	t.Cleanup(func() { to.Close(); <-c.end })
	return c
}

// greeted is a client that has agreed on a version.
func greeted(t *testing.T) *client {
	c := connect(t)
	c.raw([]byte{pktInit, 0, 0, 0, version})
	p := c.receive()
	if kind, v := p.takeByte(), p.takeUint32(); kind != pktVersion || v != version {
		t.Fatalf("answered with packet %d, version %d", kind, v)
	}
	return c
}

func (c *client) raw(packet []byte) {
	c.t.Helper()
	if _, err := c.to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(packet))), packet...)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) receive() *packet {
	c.t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		c.t.Fatal(err)
	}
	p := &packet{data: make([]byte, binary.BigEndian.Uint32(head[:]))}
	if _, err := io.ReadFull(c.in, p.data); err != nil {
		c.t.Fatal(err)
	}
	return p
}

// do sends a request and returns the type of the answer and its fields.
func (c *client) do(kind byte, fields ...any) (byte, *packet) {
	c.t.Helper()
	c.id++
	a := &answer{kind: kind}
	for _, f := range fields {
		switch f := f.(type) {
		case string:
			a.addText(f)
		case int:
			a.uint32(uint32(f))
		case uint64:
			a.uint64(f)
		case []byte:
			a.data = append(a.data, f...)
		}
	}
	c.raw(a.numbered(c.id))
	p := c.receive()
	got, id := p.takeByte(), p.takeUint32()
	if id != c.id {
		c.t.Fatalf("request %d is answered as %d", c.id, id)
	}
	return got, p
}

// fails does a request that must get a status.
func (c *client) fails(want uint32, kind byte, fields ...any) {
	c.t.Helper()
	got, p := c.do(kind, fields...)
	if got != pktStatus {
		c.t.Fatalf("request %d is answered with packet %d", kind, got)
	}
	if code, text := p.takeUint32(), p.takeText(); code != want {
		c.t.Errorf("request %d of %v has status %d (%s), want %d", kind, fields, code, text, want)
	}
}

func (c *client) open(path string, flags int) string {
	c.t.Helper()
	got, p := c.do(pktOpen, path, flags, 0)
	if got != pktHandle {
		c.t.Fatalf("open %s: packet %d, status %d", path, got, p.takeUint32())
	}
	return p.takeText()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	c := greeted(t)
	h := c.open(at("a"), openRead|openWrite|openCreate|openTrunc)
	c.fails(codeOK, pktWrite, h, uint64(3), "tail")
	c.fails(codeOK, pktWrite, h, uint64(0), "hea")
	kind, p := c.do(pktRead, h, uint64(1), 100)
	if kind != pktData || p.takeText() != "eatail" {
		t.Errorf("reading answers %d %q", kind, p.data)
	}
	c.fails(codeEOF, pktRead, h, uint64(7), 1)
	c.fails(codeOK, pktFsetstat, h, hasMode|hasTimes, 0o640, 1000, 2000)
	c.fails(codeOK, pktExtended, "fsync@openssh.com", h)
	c.fails(codeOK, pktClose, h)
	c.fails(codeFailure, pktClose, h)
	info, err := os.Stat(at("a"))
	must(t, err)
	if info.Mode() != 0o640 || info.ModTime().Unix() != 2000 || info.Size() != 7 {
		t.Errorf("it is %v", info)
	}
	c.fails(codeFailure, pktOpen, at("a"), openWrite|openCreate|openExcl, 0)
	h = c.open(at("a"), openWrite|openAppend)
	c.fails(codeOK, pktWrite, h, uint64(0), "!")
	c.fails(codeOK, pktClose, h)
	c.fails(codeOK, pktSetstat, at("a"), hasSize, uint64(4))
	if text, _ := os.ReadFile(at("a")); string(text) != "heat" {
		t.Errorf("it has %q", text)
	}
	c.fails(codeOK, pktSymlink, "a", at("l"))
	kind, p = c.do(pktReadlink, at("l"))
	if kind != pktName || p.takeUint32() != 1 || p.takeText() != "a" {
		t.Error("the link leads elsewhere")
	}
	kind, p = c.do(pktLstat, at("l"))
	if a := p.statOf(); kind != pktAttrs || a.mode&unix.S_IFMT != unix.S_IFLNK {
		t.Errorf("the link is %+v", a)
	}
	kind, p = c.do(pktStat, at("l"))
	if a := p.statOf(); kind != pktAttrs || a.size != 4 {
		t.Errorf("its file is %+v", a)
	}
	c.fails(codeOK, pktExtended, "lsetstat@openssh.com", at("l"), hasTimes, 5, 6)
	c.fails(codeOK, pktExtended, "hardlink@openssh.com", at("a"), at("b"))
	c.fails(codeFailure, pktRename, at("a"), at("b"))
	c.fails(codeOK, pktRename, at("a"), at("c"))
	c.fails(codeOK, pktExtended, "posix-rename@openssh.com", at("c"), at("b"))
	c.fails(codeOK, pktMkdir, at("d"), 0)
	c.fails(codeFailure, pktRemove, at("d"))
	c.fails(codeOK, pktRmdir, at("d"))
	c.fails(codeOK, pktRemove, at("l"))
	c.fails(codeNoSuchFile, pktStat, at("l"))
	c.fails(codeNoSuchFile, pktOpen, at("nothing"), openRead, 0)
	c.fails(codeUnsupported, pktExtended, "copy-data")
	c.fails(codeUnsupported, 99)
	for name, want := range map[string]string{"..": filepath.Dir(dir), "new/": dir + "/new", "b": dir + "/b"} {
		kind, p = c.do(pktRealpath, dir+"/"+name)
		if got := ""; kind == pktName {
			p.takeUint32()
			if got = p.takeText(); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		} else {
			t.Errorf("the real path of %s is answered with %d", name, kind)
		}
	}
	t.Setenv("HOME", dir)
	kind, p = c.do(pktExtended, "expand-path@openssh.com", "~/b")
	if p.takeUint32(); kind != pktName || p.takeText() != dir+"/b" {
		t.Error("~ is not the home directory")
	}
	if kind, _ = c.do(pktExtended, "statvfs@openssh.com", dir); kind != pktReply {
		t.Errorf("the space is answered with %d", kind)
	}
}

// statOf reads attributes with the file's type.
func (p *packet) statOf() (a attributes) {
	p.takeUint32()
	a.size = p.uint64()
	a.uid, a.gid, a.mode = p.takeUint32(), p.takeUint32(), p.takeUint32()
	return a
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	want := []string{"\xff\x1b[31m", "a\nb"}
	for i := range 230 {
		want = append(want, strings.Repeat("x", 200)+string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	for _, name := range want {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	c := greeted(t)
	kind, p := c.do(pktOpendir, dir)
	if kind != pktHandle {
		t.Fatal(kind)
	}
	h := p.takeText()
	c.fails(codeFailure, pktRead, h, uint64(0), 10)
	var got []string
	for {
		kind, p := c.do(pktReaddir, h)
		if kind == pktStatus {
			if code := p.takeUint32(); code != codeEOF {
				t.Errorf("the end has status %d", code)
			}
			break
		}
		for range p.takeUint32() {
			got = append(got, p.takeText())
			p.takeText()
			p.statOf()
			p.uint64() // times
		}
		if p.err != nil {
			t.Fatal(p.err)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d names, want %d", len(got), len(want))
	}
	c.fails(codeNoSuchFile, pktOpendir, filepath.Join(dir, "a\nb"))
}

// TestAttackOddFiles checks that a file that would block the server is refused: a pipe, a device, a directory.
func TestAttackOddFiles(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mkfifo(dir+"/pipe", 0o600))
	c := greeted(t)
	for _, path := range []string{dir + "/pipe", "/dev/zero", dir} {
		c.fails(codeFailure, pktOpen, path, openRead, 0)
	}
	c.fails(codeBadMessage, pktOpen, "a\x00b", openRead, 0)
}

// TestAttackHandles checks that open files are bounded.
func TestAttackHandles(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/f", nil, 0o600))
	c := greeted(t)
	last := ""
	for range maxHandles {
		last = c.open(dir+"/f", openRead)
	}
	c.fails(codeFailure, pktOpen, dir+"/f", openRead, 0)
	c.fails(codeOK, pktClose, last)
	c.open(dir+"/f", openRead)
}

// TestAttackMalformed checks that a malformed request gets a status, and a packet without a number ends the
// conversation.
func TestAttackMalformed(t *testing.T) {
	c := greeted(t)
	c.fails(codeBadMessage, pktStat, []byte{0xff, 0xff, 0xff, 0xff})
	c.fails(codeBadMessage, pktOpen, "f")
	c.fails(codeBadMessage, pktClose, "toolong")
	c.fails(codeBadMessage, pktSetstat, "f", -1<<31, -1)
	c.fails(codeFailure, pktRead, "\x00\x00\x00\x07", uint64(0), 1)
	h := c.open(filepath.Join(t.TempDir(), "f"), openRead|openWrite|openCreate)
	c.fails(codeFailure, pktWrite, h, uint64(1)<<63, "x")
	c.fails(codeFailure, pktRead, h, uint64(1)<<63, 1)
	c.fails(codeEOF, pktRead, h, uint64(0), -1)
	c.raw([]byte{pktStat, 1})
	if err := <-c.end; err == nil {
		t.Error("a packet without a number is accepted")
	}
	c.end <- nil
	for name, text := range map[string][]byte{
		"a packet that is too long": {0xff, 0xff, 0xff, 0xff},
		"an empty packet":           {0, 0, 0, 0},
		"half a packet":             {0, 0, 0, 5, pktInit},
		"no greeting":               {0, 0, 0, 1, pktStat},
	} {
		if Serve(bytes.NewReader(text), io.Discard) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := Serve(strings.NewReader(""), io.Discard); err != nil {
		t.Errorf("a client that says nothing: %v", err)
	}
}

func FuzzServe(f *testing.F) {
	f.Add([]byte{0, 0, 0, 5, pktInit, 0, 0, 0, 3, 0, 0, 0, 11, pktRealpath, 0, 0, 0, 1, 0, 0, 0, 2, '.', '.'})
	f.Fuzz(func(t *testing.T, data []byte) {
		for i := 0; i+4 < len(data); i++ { // requests that change nothing
			switch data[i+4] {
			case pktOpen, pktWrite, pktSetstat, pktRemove, pktMkdir, pktRmdir, pktRename, pktSymlink, pktExtended:
				return
			}
		}
		_ = Serve(bytes.NewReader(data), io.Discard)
	})
}
