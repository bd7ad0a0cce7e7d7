package term

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ErrDetached is what DetachReader.Read returns once the detach keys were
// typed.
var ErrDetached = errors.New("detached")

// ParseKeys reads a sequence of keys as Docker writes it: keys separated by
// commas, each a single ASCII character or ctrl- and one of a-z @ [ \ ] ^ _.
// The empty string is no keys at all, which turns detaching off.
func ParseKeys(s string) ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	var keys []byte
	for part := range strings.SplitSeq(s, ",") {
		key, err := parseKey(part)
		if err != nil {
			return nil, fmt.Errorf("read detach keys %q: %w", s, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func parseKey(s string) (byte, error) {
	if len(s) == 1 && s[0] < 0x80 {
		return s[0], nil
	}
	name, isCtrl := strings.CutPrefix(s, "ctrl-")
	if !isCtrl || len(name) != 1 {
		return 0, fmt.Errorf("%q is neither a single character nor ctrl- and a character", s)
	}
	switch c := name[0]; {
	case c >= 'a' && c <= 'z':
		return c - 'a' + 1, nil
	case c == '@', c >= '[' && c <= '_':
		return c - '@', nil
	}
	return 0, fmt.Errorf("%q is no control key: use one of a-z @ [ \\ ] ^ _ after ctrl-", s)
}

// DetachReader reads what the user types, without the detach keys. It holds
// back the beginning of the sequence until the next key; a caller that wants
// to hand it out after a pause uses Filter itself.
type DetachReader struct {
	r      io.Reader
	filter *Filter
	buf    [4 << 10]byte
	out    []byte // passed, and not yet read
	err    error  // comes after out
}

// NewDetachReader reads from r and ends with ErrDetached when keys were typed.
func NewDetachReader(r io.Reader, keys []byte) *DetachReader {
	return &DetachReader{r: r, filter: NewFilter(keys)}
}

// Read returns typed bytes. Everything typed before the detach keys comes
// before ErrDetached; what is held back when r ends comes before its error.
func (d *DetachReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(d.out) == 0 && d.err == nil {
		if d.fill() == 0 {
			break
		}
	}
	if len(d.out) > 0 {
		n := copy(p, d.out)
		d.out = d.out[n:]
		return n, nil
	}
	return 0, d.err
}

// fill reads once and returns how many bytes came.
func (d *DetachReader) fill() int {
	n, err := d.r.Read(d.buf[:])
	out, detached := d.filter.Feed(d.buf[:n])
	d.out = out
	switch {
	case detached:
		d.err = ErrDetached
	case err != nil:
		d.out = append(slices.Clip(d.out), d.filter.Flush()...)
		d.err = err
	}
	return n
}
