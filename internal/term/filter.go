package term

import "bytes"

// Filter finds the detach keys in the user's input. Once a program asked the terminal for one of the
// newer keyboard protocols (kitty's, or xterm's modifyOtherKeys), a control key arrives as an escape
// sequence instead of a byte; Filter knows both. The zero Filter has no keys and passes everything.
type Filter struct {
	keys     []byte
	fallback []int    // per number of keys matched: how many still match without the first
	held     [][]byte // the bytes of each key matched so far
	detached bool
}

// NewFilter looks for keys, as ParseKeys returns them.
func NewFilter(keys []byte) *Filter {
	f := &Filter{keys: bytes.Clone(keys), fallback: make([]int, len(keys)+1)}
	for i, k := 1, 0; i < len(keys); i++ {
		for k > 0 && keys[i] != keys[k] {
			k = f.fallback[k]
		}
		if keys[i] == keys[k] {
			k++
		}
		f.fallback[i+1] = k
	}
	return f
}

// Feed takes the next typed bytes. It returns the bytes to pass on, which may share memory with p, and
// whether the whole sequence has been typed. Bytes after the sequence are dropped. A partial match is
// held back, however the input is split, until it fails, and is then released in order. Only a key that
// arrives as an escape sequence has to arrive in one piece, as terminals send it: holding back every ESC
// would make the Escape key slow.
func (f *Filter) Feed(p []byte) (out []byte, detached bool) {
	if len(f.keys) == 0 {
		return p, false
	}
	for len(p) > 0 && !f.detached {
		key, n := readKey(p)
		out = f.stepByte(out, key, p[:n])
		p = p[n:]
	}
	return out, f.detached
}

func (f *Filter) stepByte(out []byte, key int, raw []byte) []byte {
	matched := len(f.held)
	if key == keyNeutral && matched > 0 {
		f.held[matched-1] = append(f.held[matched-1], raw...)
		return out
	}
	for matched > 0 && key != int(f.keys[matched]) {
		matched = f.fallback[matched]
		out = f.release(out, len(f.held)-matched)
	}
	if key != int(f.keys[matched]) {
		return append(out, raw...)
	}
	f.held = append(f.held, bytes.Clone(raw))
	if len(f.held) == len(f.keys) {
		f.detached, f.held = true, nil
	}
	return out
}

func (f *Filter) release(out []byte, n int) []byte {
	for _, raw := range f.held[:n] {
		out = append(out, raw...)
	}
	f.held = f.held[n:]
	return out
}

// Flush gives up a partial match and returns its bytes. Call it when nothing
// was typed for a while (half a second), so that a program gets the first
// detach key if the user meant it for the program.
func (f *Filter) Flush() []byte {
	return f.release(nil, len(f.held))
}

// Holding reports whether a partial match is held back.
func (f *Filter) Holding() bool { return len(f.held) > 0 }
