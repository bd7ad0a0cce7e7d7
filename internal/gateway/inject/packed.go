package inject

import (
	"bytes"
	"io"
)

// gzipMagic begins what gzip has compressed, a deflated stream within.
var gzipMagic = []byte{0x1f, 0x8b, 8}

// packed is the body of an answer that says nothing of a compression. If it begins as a file of
// gzip does, it is passed on as it comes, but not before what it holds was looked through: a
// value in it cannot be masked, and has the answer break off. All else is masked.
type packed struct {
	set  *Set
	body io.ReadCloser
	r    io.Reader // nil: nothing was read
}

func (p *packed) Read(b []byte) (int, error) {
	if p.r == nil && len(b) > 0 {
		p.begin()
	}
	if p.r == nil {
		return 0, nil
	}
	return p.r.Read(b)
}

// begin looks at the first bytes, and at no more than it takes to tell.
func (p *packed) begin() {
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

// failing gives an error, and nothing before.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
