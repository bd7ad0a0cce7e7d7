package inject

import (
	"encoding/binary"
)

// gram is how many bytes decide whether a match may begin.
const gram = 4

// finder searches for any form of some needles. It never changes.
//
// Almost no place in a text begins a match, and four bytes show that: a bit for their hash is set
// if some match begins so. The lookup depends on nothing before, so it costs about a nanosecond per
// byte. A second hash removes most collisions.
type finder struct {
	forms []*form
	heads map[uint32][]*form // by the first bytes of a match, exactly
	bits  [1 << 11]uint64    // hashes of the keys of heads
	first [256]bool          // first bytes of possible matches
	begin [256]bool          // characters that forms begin with, in every spelling
	brief bool               // a needle is too short to reveal its first byte
}

// firstHash and secondHash return the place in bits for the first bytes of a match.
func firstHash(k uint32) (word, bit uint32) {
	h := k * 0x9e3779b1
	return h >> 21, h >> 15 & 63
}

func secondHash(k uint32) (word, bit uint32) {
	h := (k ^ k>>15) * 0x85ebca6b
	return h >> 21, h >> 15 & 63
}

// minTold is the length from which on the first character of a value may be passed on before the
// second has arrived.
const minTold = 16

func newFinder(needles []needle) *finder {
	if len(needles) == 0 {
		return nil
	}
	f := &finder{heads: map[uint32][]*form{}}
	seen := map[string]bool{}
	for i := range needles {
		n := &needles[i]
		f.brief = f.brief || len(n.text) < minTold
		if seen[n.text] {
			continue
		}
		seen[n.text] = true
		f.forms = append(f.forms, n.allForms()...)
	}
	known := spellbook{}
	for _, form := range f.forms {
		for _, c := range form.symbols[0].listBytes() {
			f.begin[c] = true
		}
		form.collectGrams(known, func(g [gram]byte) {
			k := binary.LittleEndian.Uint32(g[:])
			if list := f.heads[k]; len(list) == 0 || list[len(list)-1] != form {
				f.heads[k] = append(list, form)
			}
			f.first[g[0]] = true
		})
	}
	for k := range f.heads {
		for _, h := range []func(uint32) (uint32, uint32){firstHash, secondHash} {
			word, bit := h(k)
			f.bits[word] |= 1 << bit
		}
	}
	return f
}

// scanText finds all matches in a text, overlapping ones too. It returns the first place at which later
// bytes could make a match: from there on nothing may be passed on before they arrive. If no bytes
// follow, it is the end.
func (f *finder) scanText(b []byte, final bool, hit func(m *form, start, end int)) (keep int) {
	keep = len(b)
	try := func(list []*form, i int) {
		if special[b[i]] && !f.mayBegin(b, i) {
			return
		}
		for _, m := range list {
			end, more := m.matchFrom(b, i)
			if end >= 0 {
				hit(m, i, end)
			}
			if more && !final {
				keep = min(keep, i)
			}
		}
	}
	i := 0
	for ; len(b)-i >= 2*gram; i += gram {
		x := binary.LittleEndian.Uint64(b[i:])
		hit := f.prefixBits(uint32(x)) | f.prefixBits(uint32(x>>8)) | f.prefixBits(uint32(x>>16)) | f.prefixBits(uint32(x>>24))
		if hit != 0 {
			for j := range gram {
				f.matchAt(b, i+j, try)
			}
		}
	}
	for ; len(b)-i >= gram; i++ {
		f.matchAt(b, i, try)
	}
	if final {
		return keep
	}
	for ; i < len(b); i++ {
		if f.first[b[i]] {
			try(f.forms, i)
		}
	}
	return keep
}

// mayBegin reports whether the character of an escape may be the first of a form. All forms may
// begin with any escape, so a body of only escapes would try all of them at each byte.
func (f *finder) mayBegin(b []byte, i int) bool {
	var r readings
	r.readFrom(b, i)
	if r.more {
		return true
	}
	for _, o := range r.list[:r.n] {
		if f.begin[o.char] {
			return true
		}
	}
	return false
}

// prefixBits returns nonzero if a match may begin so, and rarely otherwise.
func (f *finder) prefixBits(k uint32) uint64 {
	word, bit := firstHash(k)
	return f.bits[word] >> bit & 1
}

// matchAt tries the forms that may begin at a place.
func (f *finder) matchAt(b []byte, i int, try func([]*form, int)) {
	k := binary.LittleEndian.Uint32(b[i:])
	word, bit := secondHash(k)
	if f.prefixBits(k) == 0 || f.bits[word]>>bit&1 == 0 {
		return
	}
	if list := f.heads[k]; list != nil {
		try(list, i)
	}
}

// findNeedle returns a needle that the text contains, or nil.
func (f *finder) findNeedle(b []byte) (found *needle) {
	f.scanText(b, true, func(m *form, _, _ int) { found = m.needle })
	return found
}

// maskText masks a whole text.
func (f *finder) maskText(s string) string {
	raw := []byte(s)
	var out []byte
	f.scanText(raw, true, func(m *form, start, end int) {
		if out == nil {
			out = []byte(s)
		}
		m.coverMatch(out[start:end], raw[start:end])
	})
	if out == nil {
		return s
	}
	return string(out)
}
