package inject

import (
	"bytes"
	"io"
)

// gzipMagic begins gzip data with a deflated stream.
var gzipMagic = []byte{0x1f, 0x8b, 8}

// packed is the body of an answer that announces no compression. A body that begins like a gzip
// file is passed on as it comes, but only after its text was searched: a value in it cannot be
// masked, and breaks the answer off. All other bodies are masked.
type packed struct {
	set  *Set
	body io.ReadCloser
	r    io.Reader // nil: nothing was read
}

func (p *packed) Read(b []byte) (int, error) {
	if p.r == nil && len(b) > 0 {
		p.detectForm()
	}
	if p.r == nil {
		return 0, nil
	}
	return p.r.Read(b)
}

// detectForm looks at as many of the first bytes as it needs to decide.
func (p *packed) detectForm() {
	var head []byte
	rest := io.Reader(p.body)
	for len(head) < len(gzipMagic) && bytes.HasPrefix(gzipMagic, head) {
		next := make([]byte, smallRead)
		n, err := p.body.Read(next)
		head = append(head, next[:n]...)
		if err != nil {
			rest = failing{err}
			break
		}
	}
	all := io.MultiReader(bytes.NewReader(head), rest)
	if !bytes.HasPrefix(head, gzipMagic) {
		p.r = p.set.Masker(all)
		return
	}
	why := func(*loan) string { return "its value is in what a server of its lease has compressed" }
	scanner := func() *Scanner { return &Scanner{f: p.set.values, where: "answer", why: why} }
	raw := &body{ReadCloser: io.NopCloser(all), scan: scanner(), trailer: func() error { return nil }}
	p.r = &inflated{body: raw, coding: "gzip", scan: scanner()}
}

// failing returns an error, and nothing before it.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
