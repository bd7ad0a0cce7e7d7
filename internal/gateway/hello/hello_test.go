package hello

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/iotest"
)

// client gives what a client of this library says first.
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
			info, read, err := Read(r)
			if err != nil || info.ServerName != "api.example.com" || !slices.Equal(info.Protocols, c.NextProtos) {
				t.Errorf("%s: %+v, %v", name, info, err)
			}
			rest, _ := io.ReadAll(r)
			if all := append(read, rest...); !bytes.HasPrefix(all, said) {
				t.Errorf("%s: bytes are lost", name)
			}
		}
		if !Looks(said) {
			t.Errorf("%s does not look like TLS", name)
		}
	}
	info, _, err := Read(bytes.NewReader(client(t, &tls.Config{InsecureSkipVerify: true})))
	if err != nil || info.ServerName != "" {
		t.Errorf("without a name: %+v, %v", info, err)
	}
}

// A ClientHello in several records is one.
func TestFragments(t *testing.T) {
	said := client(t, &tls.Config{ServerName: "api.example.com"})
	var split []byte
	for body := range slices.Chunk(said[5:], 100) {
		split = append(split, said[0], said[1], said[2], 0, byte(len(body)))
		split = append(split, body...)
	}
	info, read, err := Read(bytes.NewReader(split))
	if err != nil || info.ServerName != "api.example.com" || !bytes.Equal(read, split) {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestNot(t *testing.T) {
	said := client(t, &tls.Config{ServerName: "api.example.com"})
	for name, b := range map[string][]byte{
		"nothing": nil, "http": []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "ssh": []byte("SSH-2.0-x\r\n"),
		"half": said[:len(said)/2], "alert": {21, 3, 1, 0, 2, 1, 0}, "zeros": make([]byte, 100),
	} {
		_, read, err := Read(bytes.NewReader(b))
		if !errors.Is(err, ErrNotTLS) || !bytes.HasPrefix(b, read) {
			t.Errorf("%s: %v after %d bytes", name, err, len(read))
		}
	}
	endless := bytes.Repeat([]byte{22, 3, 1, 0x40, 0}, 1)
	endless = append(endless, 1, 0, 0xff, 0xff)
	if _, _, err := Read(io.MultiReader(bytes.NewReader(endless), zeros{})); err == nil {
		t.Error("an endless one is read to its end")
	}
	broken := errors.New("broken")
	if _, _, err := Read(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a broken connection: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func FuzzRead(f *testing.F) {
	f.Add(client(f, &tls.Config{ServerName: "api.example.com"}))
	f.Add([]byte{22, 3, 1, 0, 4, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, read, _ := Read(bytes.NewReader(b))
		if !bytes.HasPrefix(b, read) {
			t.Error("bytes are changed")
		}
	})
}
