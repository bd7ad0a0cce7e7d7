package inject

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPackedAnswers checks that a gzip file from a bound host arrives unchanged, unless it contains
// a value, whatever coding the header names.
func TestPackedAnswers(t *testing.T) {
	addr := netip.MustParseAddrPort("192.0.2.1:443")
	set := compile(t, lend(func(l *wire.Loan) { l.Hosts = []string{addr.String()} }))
	to := Target{Addr: addr.Addr(), Port: addr.Port(), Secure: true}
	noise := strings.Repeat("all that is in an archive, ", 9000)
	with := gzipped(t, noise+value+noise)
	clean := gzipped(t, noise)
	read := func(coding string, body []byte, as func(io.Reader) io.Reader) ([]byte, error) {
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(as(bytes.NewReader(body)))}
		if coding != "" {
			resp.Header.Set("Content-Encoding", coding)
		}
		if err := set.Response(resp, to); err != nil {
			return nil, err
		}
		return io.ReadAll(resp.Body)
	}
	for how, as := range map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "by bytes": iotest.OneByteReader, "by halves": iotest.HalfReader, "early ends": iotest.DataErrReader,
	} {
		for what, body := range map[string][]byte{"a file": with, "the second of two": append(bytes.Clone(clean), with...), "behind one": append(bytes.Clone(clean), value...)} {
			if got, err := read("", body, as); !errors.Is(err, spec.ErrDenied) || len(got) >= len(body) {
				t.Errorf("%s, %s: %d of %d bytes, %v", how, what, len(got), len(body), err)
			}
		}
		if got, err := read("gzip", gzipped(t, string(with)), as); !errors.Is(err, spec.ErrDenied) || len(got) >= len(with) {
			t.Errorf("%s, compressed twice: %d bytes, %v", how, len(got), err)
		}
		for what, body := range map[string][]byte{"a file": clean, "two": append(bytes.Clone(clean), clean...), "nothing": {}, "a byte": {0x1f}, "two bytes": {0x1f, 0x8b}, "no gzip": {0x1f, 0x9d, 1, 2}} {
			if got, err := read("", body, as); err != nil || !bytes.Equal(got, body) {
				t.Errorf("%s, %s without a value: %d of %d bytes, %v", how, what, len(got), len(body), err)
			}
		}
		if got, err := read("", []byte("text with "+value), as); err != nil || bytes.Contains(got, []byte(value)) || len(got) != len("text with "+value) {
			t.Errorf("%s: %q, %v", how, got, err)
		}
	}
}

// TestPackedElsewhere checks that bytes compressed in another way, or further in, are passed on as
// docs/design/security-secrets.md says.
func TestPackedElsewhere(t *testing.T) {
	addr := netip.MustParseAddrPort("192.0.2.1:443")
	set := compile(t, lend(func(l *wire.Loan) { l.Hosts = []string{addr.String()} }))
	to := Target{Addr: addr.Addr(), Port: addr.Port(), Secure: true}
	packed := func(make func(io.Writer) io.WriteCloser) []byte {
		var b bytes.Buffer
		w := make(&b)
		_, err := io.WriteString(w, value)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	file := gzipped(t, value)
	for what, body := range map[string][]byte{
		"gzip in gzip":     gzipped(t, string(file)),
		"gzip in parts":    []byte("--x\r\nContent-Type: application/gzip\r\n\r\n" + string(file) + "\r\n--x--\r\n"),
		"base64 of gzip":   []byte(base64.StdEncoding.EncodeToString(file)),
		"zlib":             packed(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
		"deflate":          packed(func(w io.Writer) io.WriteCloser { f, _ := flate.NewWriter(w, 6); return f }),
		"zip":              append([]byte("PK\x03\x04"), file...),
		"a byte before it": append([]byte{' '}, file...),
	} {
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}
		if err := set.Response(resp, to); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: %d of %d bytes, %v", what, len(got), len(body), err)
		}
	}
	// Garbage after a file cannot be read, so the answer breaks off.
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(append(gzipped(t, "clean"), "garbage"...)))}
	if err := set.Response(resp, to); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, spec.ErrDenied) {
		t.Errorf("garbage behind a file: %v", err)
	}
}
