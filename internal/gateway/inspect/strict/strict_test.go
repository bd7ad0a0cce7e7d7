package strict

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// stream is a connection with fixed input, which then ends.
type stream struct {
	net.Conn
	io.Reader
}

func (s stream) Read(b []byte) (int, error) { return s.Reader.Read(b) }

func filter(r io.Reader) (*Conn, string, error) {
	s := New(stream{Reader: r}, nil)
	out, err := io.ReadAll(s)
	return s, string(out), err
}

const (
	plain   = "GET /a?b HTTP/1.1\r\nHost: h\r\nX-A:  b\t\r\n\r\n"
	sized   = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nGET /"
	chunked = "POST /a HTTP/1.1\r\nHost: h\r\ntransfer-encoding: CHUNKED\r\n\r\n5\r\nGET /\r\n0a\r\n0123456789\r\n0\r\nX-T: 1\r\n\r\n"
	old     = "HEAD / HTTP/1.0\r\nHost: h\r\n\r\n"
	all     = "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"
)

// TestStrictPasses checks that allowed bytes pass unchanged, however they arrive.
func TestStrictPasses(t *testing.T) {
	text := plain + sized + chunked + old + all + sized + plain
	for name, r := range map[string]io.Reader{
		"at once":    strings.NewReader(text),
		"by bytes":   iotest.OneByteReader(strings.NewReader(text)),
		"by halves":  iotest.HalfReader(strings.NewReader(text)),
		"early ends": iotest.DataErrReader(strings.NewReader(text)),
	} {
		s, got, err := filter(r)
		if got != text || err != nil || s.Failed() != nil {
			t.Errorf("%s: %q, %v, %v", name, got, err, s.Failed())
		}
	}
}

// late fails with a timeout before every byte.
type late struct {
	r    io.Reader
	turn bool
}

func (l *late) Read(b []byte) (int, error) {
	if l.turn = !l.turn; l.turn {
		return 0, os.ErrDeadlineExceeded
	}
	return l.r.Read(b[:1])
}

// TestStrictGoesOnAfterTimeouts checks that reading continues after each of many timeouts.
func TestStrictGoesOnAfterTimeouts(t *testing.T) {
	text := plain + chunked + sized
	s := New(stream{Reader: &late{r: strings.NewReader(text)}}, nil)
	var got []byte
	for {
		b := make([]byte, 3)
		n, err := s.Read(b)
		got = append(got, b[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if string(got) != text {
		t.Errorf("%q", got)
	}
}

// TestStrictUpgrade checks that after an upgrade everything passes, also bytes that had been taken
// for a head.
func TestStrictUpgrade(t *testing.T) {
	r, w := io.Pipe()
	s := New(stream{Reader: r}, nil)
	go func() {
		_, _ = io.WriteString(w, plain)
		time.Sleep(10 * time.Millisecond)
		_, _ = io.WriteString(w, "\x81\x00no head\r\n\r\n")
		w.Close()
	}()
	head := make([]byte, len(plain))
	if _, err := io.ReadFull(s, head); err != nil {
		t.Fatal(err)
	}
	if err := s.Upgrade(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(s)
	if string(rest) != "\x81\x00no head\r\n\r\n" || err != nil {
		t.Errorf("%q %v", rest, err)
	}
}

// TestStrictEarly checks that bytes taken for a request, or for a bad one, are not passed on as the
// other protocol's.
func TestStrictEarly(t *testing.T) {
	for _, early := range []string{"GET / HTTP/1.1\r\nX: 1\r\n", "\x81\x00no head\r\n"} {
		s, _, _ := filter(strings.NewReader(plain + early))
		if err := s.Upgrade(); err == nil {
			rest, _ := io.ReadAll(s)
			t.Errorf("%q: %q passes", early, rest)
		}
	}
}

// FuzzStrict checks that for any input, another parser reads the output in the same way, to the
// byte, and that the output passes once more unchanged.
func FuzzStrict(f *testing.F) {
	for _, s := range []string{plain, sized, chunked, old, all, "GET / HTTP/1.1\nHost: h\n\n", chunked[:len(chunked)-20], strings.Replace(chunked, "5\r\n", "5;a\r\n", 1)} {
		f.Add([]byte(s), uint8(3))
		f.Add([]byte(plain+s), uint8(255))
	}
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		s, out, err := filter(bytes.NewReader(in))
		whole, _ := strings.CutSuffix(out, Refused+" / HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(string(in), whole) {
			t.Fatalf("%q came out of %q", out, in)
		}
		if err == nil && s.Failed() == nil && whole != string(in) {
			t.Fatalf("%q is missing of %q", in[len(whole):], in)
		}
		if errors.Is(err, ErrNoHTTP) && out != "" {
			t.Fatalf("%q came out of %q, which is no HTTP", out, in)
		}
		_, split, splitErr := filter(&steps{in: in, n: int(step)%40 + 1})
		if split != out || !errors.Is(splitErr, err) {
			t.Fatalf("in steps %q and %v, at once %q and %v", split, splitErr, out, err)
		}
		r := bufio.NewReader(strings.NewReader(whole))
		for {
			if _, err := r.Peek(1); err != nil {
				return
			}
			q, err := http.ReadRequest(r)
			if err != nil {
				if s.Failed() == nil && s.state == atHead {
					t.Logf("net/http is stricter still: %v", err)
				}
				return
			}
			if q.Host == "" && !strings.Contains(whole, "Host:") && !strings.Contains(strings.ToLower(whole), "host:") {
				t.Fatalf("no host in %q", whole)
			}
			if len(q.TransferEncoding) > 0 && q.Header.Get("Content-Length") != "" {
				t.Fatalf("two lengths in %q", whole)
			}
			if _, err := io.Copy(io.Discard, q.Body); err != nil {
				return
			}
		}
	})
}

// steps returns a few bytes at a time.
type steps struct {
	in []byte
	n  int
}

func (s *steps) Read(b []byte) (int, error) {
	if len(s.in) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), s.n)], s.in)
	s.in = s.in[n:]
	return n, nil
}
