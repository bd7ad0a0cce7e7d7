package inject

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// coding returns how a body is compressed: empty if it is not, and "other" if this package cannot
// read it.
func coding(h http.Header) string {
	found := ""
	for name := range strings.SplitSeq(strings.ToLower(strings.Join(h.Values("Content-Encoding"), ",")), ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "" || name == "identity":
		case found != "":
			return "other"
		case name == "gzip" || name == "x-gzip":
			found = "gzip"
		case name == "deflate":
			found = "deflate"
		default:
			found = "other"
		}
	}
	return found
}

// byteReader is the input of decompressors that must not read ahead.
type byteReader interface {
	io.Reader
	io.ByteReader
}

// decompressor begins to read a coding. Servers use the name deflate for two formats.
func decompressor(coding string, r byteReader, peek func() ([]byte, error)) (io.Reader, error) {
	if coding == "gzip" {
		return gzip.NewReader(r)
	}
	head, err := peek()
	if err != nil {
		return nil, err
	}
	if head[0]&15 == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

// plainBody reads a compressed answer. An empty one, as to HEAD, is empty.
type plainBody struct {
	r      *bufio.Reader
	coding string
	z      io.Reader
}

func (p *plainBody) Read(b []byte) (int, error) {
	if p.z == nil {
		if _, err := p.r.Peek(1); err != nil {
			return 0, err
		}
		var err error
		if p.z, err = decompressor(p.coding, p.r, func() ([]byte, error) { return p.r.Peek(2) }); err != nil {
			return 0, hideEOF(err)
		}
	}
	return p.z.Read(b)
}

// Plain returns the decompressed body of an answer.
func Plain(resp *http.Response) (io.Reader, error) {
	switch c := coding(resp.Header); c {
	case "":
		return resp.Body, nil
	case "other":
		return nil, spec.Errorf(spec.ErrDenied, "the answer has an unknown content encoding")
	default:
		return &plainBody{r: bufio.NewReader(resp.Body), coding: c}, nil
	}
}

func hideEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// An upload may grow as much as text does, but not without bounds: reading it costs the host time.
const (
	maxFreely = 64 << 20
	maxGrowth = 200
)

// maxSilent bounds compressed bytes without any text, which have to be held back until text
// follows. A client may send any number of empty blocks. A decompressor returns text after 32 KiB
// of it at the latest.
const maxSilent = 1 << 20

// inflated is a compressed body of a request. It is passed on as it came, but only after its plain
// text was read: bytes are free when the text after theirs was judged.
type inflated struct {
	*body
	coding string
	scan   *Scanner
	z      io.Reader
	window []byte

	raw          []byte // the bytes that came
	used         int    // of raw, by the decompressor
	before       int    // used, as of the last text
	free         int    // of raw, may be passed on
	size, growth int64  // of all that came, and its text
	end          error  // the error of the input
	done         error  // the error of the output
}

func (f *inflated) Read(p []byte) (int, error) {
	for f.free == 0 {
		if f.done != nil || len(p) == 0 {
			return 0, f.done
		}
		f.done = f.judgeStep()
	}
	n := copy(p, f.raw[:f.free])
	f.raw = f.raw[:copy(f.raw, f.raw[n:])]
	f.free, f.used, f.before = f.free-n, max(0, f.used-n), max(0, f.before-n)
	return n, nil
}

// judgeStep judges some text and frees the bytes that it was made of.
func (f *inflated) judgeStep() error {
	if f.z == nil {
		err := f.beginStream()
		if f.end == io.EOF && f.size == 0 {
			return io.EOF
		}
		if err != nil {
			return f.failed(err)
		}
	}
	n, err := f.z.Read(f.window)
	if refused := f.scan.Feed(f.window[:n]); refused != nil {
		return refused
	}
	f.growth += int64(n)
	if f.growth > maxFreely && f.growth/maxGrowth > f.size {
		return spec.Errorf(spec.ErrDenied, "the body is %d times as large as it seems", f.growth/f.size)
	}
	switch {
	case err == io.EOF:
		return f.finish()
	case err != nil:
		return f.failed(err)
	}
	f.free, f.before = f.before, f.used
	return nil
}

func (f *inflated) beginStream() error {
	f.window = make([]byte, 64<<10) // more than a decompressor gives at once
	var err error
	f.z, err = decompressor(f.coding, tap{f}, f.peekRaw)
	return err
}

// tap is the decompressor's input: it reads byte by byte, so that used is exact.
type tap struct{ f *inflated }

func (t tap) ReadByte() (byte, error) {
	f := t.f
	for f.used == len(f.raw) {
		if f.end != nil {
			return 0, f.end
		}
		f.fillRaw()
	}
	c := f.raw[f.used]
	f.used++
	return c, nil
}

func (t tap) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c, err := t.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = c
	n := 1 + copy(p[1:], t.f.raw[t.f.used:])
	t.f.used += n - 1
	return n, nil
}

// finish passes on the rest, and the bytes after the compressed text: those were judged as they
// are.
func (f *inflated) finish() error {
	for f.end == nil && len(f.raw) == f.used {
		f.fillRaw()
	}
	f.used = len(f.raw)
	f.before, f.free = f.used, f.used
	return f.end
}

// failed distinguishes a body that broke off from an unreadable one.
func (f *inflated) failed(err error) error {
	if f.end != nil && f.end != io.EOF {
		return f.end
	}
	return spec.Errorf(spec.ErrDenied, "the body cannot be read as %s: %w", f.coding, hideEOF(err))
}

// fillRaw adds the next bytes to raw.
func (f *inflated) fillRaw() {
	if f.used-f.before > maxSilent {
		f.end = spec.Errorf(spec.ErrDenied, "%d KiB of the body hold no text; it is encoded with %s", maxSilent>>10, f.coding)
		return
	}
	n := len(f.raw)
	if cap(f.raw)-n < smallRead {
		f.raw = append(make([]byte, 0, 2*cap(f.raw)+largeRead), f.raw...)
	}
	k, err := f.body.Read(f.raw[n : n+smallRead])
	f.raw, f.end, f.size = f.raw[:n+k], err, f.size+int64(k)
}

func (f *inflated) peekRaw() ([]byte, error) {
	for len(f.raw) < f.used+2 && f.end == nil {
		f.fillRaw()
	}
	if len(f.raw) < f.used+2 {
		return nil, f.end
	}
	return f.raw[f.used:], nil
}
