package clienthello

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/iotest"
	"time"
)

// client returns the first message of a client of this library.
func client(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	near, far := net.Pipe()
	defer far.Close()
	go func() {
		_ = tls.Client(near, c).Handshake()
		near.Close()
	}()
	b := make([]byte, 64<<10)
	n, err := io.ReadAtLeast(far, b, 5)
	if err != nil {
		t.Fatal(err)
	}
	want := 5 + int(b[3])<<8 + int(b[4])
	if n < want {
		if _, err := io.ReadFull(far, b[n:want]); err != nil {
			t.Fatal(err)
		}
	}
	return b[:want]
}

func TestRead(t *testing.T) {
	for name, c := range map[string]*tls.Config{
		"new": {ServerName: "api.example.com", NextProtos: []string{"h2", "http/1.1"}},
		"old": {ServerName: "api.example.com", MaxVersion: tls.VersionTLS12},
	} {
		said := client(t, c)
		for _, r := range []io.Reader{bytes.NewReader(said), iotest.OneByteReader(bytes.NewReader(said)), bytes.NewReader(append(slices.Clone(said), "more"...))} {
			info, read, err := Read(nil, r)
			if err != nil || info.ServerName != "api.example.com" || !slices.Equal(info.Protocols, c.NextProtos) {
				t.Errorf("%s: %+v, %v", name, info, err)
			}
			rest, _ := io.ReadAll(r)
			if all := append(read, rest...); !bytes.HasPrefix(all, said) {
				t.Errorf("%s: bytes are lost", name)
			}
		}
		for i := range said {
			if l := Looks(said[:i]); l == No || i > 6 && l != Yes {
				t.Errorf("%d bytes of %s look like TLS: %d", i, name, l)
			}
		}
		begun := slices.Concat(said, make([]byte, 2*MaxSize)) // early data
		if _, read, err := Read(begun, iotest.ErrReader(io.ErrNoProgress)); err != nil || !bytes.Equal(read, begun) {
			t.Errorf("%s, with more behind it: %d bytes, %v", name, len(read), err)
		}
	}
	info, _, err := Read(nil, bytes.NewReader(client(t, &tls.Config{InsecureSkipVerify: true})))
	if err != nil || info.ServerName != "" {
		t.Errorf("without a name: %+v, %v", info, err)
	}
}

// records spreads a client's bytes over several records.
func records(said []byte, size int) []byte {
	var split []byte
	for body := range slices.Chunk(said[5:], size) {
		split = append(split, said[0], said[1], said[2], 0, byte(len(body)))
		split = append(split, body...)
	}
	return split
}

// TestFragments checks that a ClientHello in several records is read as one, however small they
// are.
func TestFragments(t *testing.T) {
	said := client(t, &tls.Config{ServerName: "api.example.com"})
	for _, size := range []int{1, 2, 3, 7, 100, 255} {
		split := records(said, size)
		info, read, err := Read(nil, bytes.NewReader(split))
		if err != nil || info.ServerName != "api.example.com" || !bytes.Equal(read, split) {
			t.Errorf("%d bytes each: %+v, %v", size, info, err)
		}
	}
}

func TestNot(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing": nil, "http": []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "ssh": []byte("SSH-2.0-x\r\n"), "zeros": make([]byte, 100),
		"a beginning": {22, 3, 1}, "Minecraft": append([]byte{22, 0, 0xff, 5, 14}, "mc.example.com"...), "MongoDB": {22, 3, 0, 0, 1, 0, 0, 0, 0, 0},
		"server's": {22, 3, 3, 0, 80, 2, 0, 0, 76, 3, 3},
	} {
		_, read, err := Read(nil, bytes.NewReader(b))
		if !errors.Is(err, ErrNotTLS) || !bytes.HasPrefix(b, read) {
			t.Errorf("%s: %v after %d bytes", name, err, len(read))
		}
	}
	broken := errors.New("broken")
	if _, _, err := Read(nil, iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a broken connection: %v", err)
	}
}

// name returns the extension with some names, and frame a ClientHello with extensions.
func name(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(list, 0, 0, byte(len(n)))
		list = append(list, n...)
	}
	return extension(0, append([]byte{0, byte(len(list))}, list...)...)
}

func extension(kind uint16, data ...byte) []byte {
	return append([]byte{byte(kind >> 8), byte(kind), 0, byte(len(data))}, data...)
}

func frame(extensions ...[]byte) []byte {
	all := slices.Concat(extensions...)
	m := slices.Concat([]byte{3, 3}, make([]byte, 32), []byte{0, 0, 2, 0x13, 1, 1, 0, byte(len(all) >> 8), byte(len(all))}, all)
	return slices.Concat([]byte{22, 3, 1, byte((len(m) + 4) >> 8), byte(len(m) + 4), 1, 0, byte(len(m) >> 8), byte(len(m))}, m)
}

// TestUnreadable checks that a ClientHello that a server might read in another way is refused.
func TestUnreadable(t *testing.T) {
	const api = "api.example.com"
	if info, _, err := Read(nil, bytes.NewReader(frame(name(api), extension(0xfe0d, 0, 0, 1, 0, 1, 7, 0, 1, 5, 0, 1, 6)))); err != nil || info.ServerName != api {
		t.Fatalf("%+v %v", info, err)
	}
	said := client(t, &tls.Config{ServerName: "api.example.com"})
	patched := func(at int, with ...byte) []byte {
		b := slices.Clone(said)
		copy(b[at:], with)
		return b
	}
	dot := bytes.Replace(said, []byte(api), []byte("api.example.co."), 1)
	for what, b := range map[string][]byte{
		"dot": dot, "dot, many records": records(dot, 1), "dot, added": frame(name(api + ".")), "dot before": frame(name("." + api)),
		"two names": frame(name(api, "evil.example")), "the same twice": frame(name(api, api)), "no name": frame(name()), "empty name": frame(name("")),
		"two extensions": frame(name(api), name(api)), "name and zero": frame(name(api + "\x00.evil.example")), "kelvin": frame(name("api.example.\u212aom")),
		"address": frame(name("[::1]")), "other kind": frame(extension(0, 0, 4, 1, 0, 1, 'x')), "name, and more": frame(extension(0, 0, 4, 0, 0, 1, 'x', 0)),
		"bad ECH": frame(name(api), extension(0xfe0d, 0, 0, 1)), "inner ECH": frame(name(api), extension(0xfe0d, 1)), "empty ECH": frame(name(api), extension(0xfe0d)),
		"bad ALPN": frame(name(api), extension(16, 0, 3, 2, 'h')), "empty ALPN": frame(name(api), extension(16, 0, 0)), "empty protocol": frame(extension(16, 0, 1, 0)),
		"a cut extension": frame(name(api), []byte{0, 5, 0, 9, 1}), "odd suites": slices.Replace(frame(), 45, 46, 3),
		"half": said[:len(said)/2], "all but one byte": said[:len(said)-1], "shorter than it says": patched(8, said[8]-1), "longer than it says": patched(8, said[8]+1),
		"an alert first": append([]byte{21, 3, 1, 0, 2, 1, 90}, said...), "an alert of Go's": append([]byte{21, 9, 9, 0, 2, 1, 90}, said...),
		"a cipher change first": append([]byte{20, 3, 3, 0, 1, 1}, said...), "nothing first": append([]byte{22, 3, 1, 0, 0}, said...),
		"nothing between": slices.Concat(records(said, 200)[:205], []byte{22, 3, 1, 0, 0}, records(said, 200)[205:]),
		"another between": slices.Concat(records(said, 200)[:205], []byte{21, 3, 1, 0, 2, 1, 90}, records(said, 200)[205:]),
		"version 2":       patched(1, 2), "version 4": patched(1, 4), "version 3.9": patched(2, 9), "old inside": patched(9, 2), "a big record": patched(3, 0x40, 1),
		"SSL 2":     slices.Concat([]byte{0x80, 0x2e, 1, 3, 1, 0, 3, 0, 0, 0, 16, 0, 0, 5}, make([]byte, 32)),
		"a big one": {22, 3, 1, 0x40, 0, 1, 1, 0, 0}, "huge": {22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff},
	} {
		for _, r := range []io.Reader{bytes.NewReader(b), iotest.OneByteReader(bytes.NewReader(b))} {
			if info, read, err := Read(nil, r); !errors.Is(err, ErrUnreadable) || !bytes.HasPrefix(b, read) {
				t.Errorf("%s: %+v, %v", what, info, err)
			}
		}
	}
	endless := append([]byte{22, 3, 1, 0, 4, 1, 0, 0x70, 0}, bytes.Repeat([]byte{22, 3, 1, 0, 1, 0}, MaxSize)...)
	if _, read, err := Read(nil, bytes.NewReader(endless)); !errors.Is(err, ErrUnreadable) || len(read) > MaxSize {
		t.Errorf("of an endless one %d bytes are read: %v", len(read), err)
	}
}

// theirs returns the result of the standard library for a ClientHello.
func theirs(b []byte) (info Info, ok bool) {
	_ = tls.Server(replay{bytes.NewReader(b)}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		info, ok = Info{ServerName: h.ServerName, Protocols: h.SupportedProtos}, true
		return nil, errors.New("seen")
	}}).Handshake()
	return info, ok
}

// replay is a connection with recorded input, which drops its output.
type replay struct{ *bytes.Reader }

func (replay) Write(b []byte) (int, error)      { return len(b), nil }
func (replay) Close() error                     { return nil }
func (replay) LocalAddr() net.Addr              { return nil }
func (replay) RemoteAddr() net.Addr             { return nil }
func (replay) SetDeadline(time.Time) error      { return nil }
func (replay) SetReadDeadline(time.Time) error  { return nil }
func (replay) SetWriteDeadline(time.Time) error { return nil }

// FuzzRead checks that a ClientHello that the standard library accepts is read in the same way, or
// refused.
func FuzzRead(f *testing.F) {
	said := client(f, &tls.Config{ServerName: "api.example.com", NextProtos: []string{"h2"}})
	f.Add(said)
	f.Add(records(said, 3))
	f.Add([]byte{22, 3, 1, 0, 4, 1, 0, 0, 0})
	f.Add(append([]byte{21, 3, 1, 0, 2, 1, 90}, said...))
	f.Add(frame(name("api.example.com."), extension(0xfe0d, 0)))
	f.Fuzz(func(t *testing.T, b []byte) {
		info, read, err := Read(nil, bytes.NewReader(b))
		if !bytes.HasPrefix(b, read) {
			t.Error("bytes are changed")
		}
		if err != nil && !errors.Is(err, ErrNotTLS) && !errors.Is(err, ErrUnreadable) {
			t.Error(err)
		}
		if errors.Is(err, ErrNotTLS) && Looks(b) == Yes {
			t.Error("what looks like TLS is none")
		}
		if other, ok := theirs(b); ok && (errors.Is(err, ErrNotTLS) || err == nil && (info.ServerName != other.ServerName || !slices.Equal(info.Protocols, other.Protocols))) {
			t.Errorf("we read %+v, %v, and others %+v", info, err, other)
		}
	})
}
