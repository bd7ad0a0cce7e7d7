package term

import (
	"bytes"
	"strings"
)

// Results of readKey besides bytes.
const (
	keyOther   = -1 // no key that a detach sequence can contain
	keyNeutral = -2 // a release, or a modifier alone: no effect on the sequence
)

// Modifiers of an encoded key. The sequence has their sum plus one.
const (
	modShift = 1
	modCtrl  = 4
	modLocks = 64 | 128 // caps lock, num lock: on or off, the key is the same
)

// maxKey bounds the search for the end of an encoded key.
const maxKey = 64

// readKey reads the key at the start of p. It returns the byte that the key means on a terminal without
// keyboard protocols, and the length of the key.
func readKey(p []byte) (key, n int) {
	if p[0] != esc {
		return int(p[0]), 1
	}
	params, final, ok := encodedKey(p)
	if !ok {
		return esc, 1
	}
	n = len(params) + 3
	fields := strings.Split(params, ";")
	if final == '~' {
		return otherKey(fields), n
	}
	return kittyKey(fields), n
}

// encodedKey parses CSI parameters final at the start of p, if that is a key that could also have
// arrived as a byte: CSI code ; modifiers u, or CSI 27 ; modifiers ; code ~.
func encodedKey(p []byte) (params string, final byte, ok bool) {
	rest, ok := bytes.CutPrefix(p, []byte("\x1b["))
	if !ok {
		return "", 0, false
	}
	rest = rest[:min(len(rest), maxKey)]
	end := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > ';' })
	if end < 1 {
		return "", 0, false
	}
	params, final = string(rest[:end]), rest[end]
	return params, final, final == 'u' || final == '~' && strings.HasPrefix(params, "27;")
}

// otherKey reads xterm's 27 ; modifiers ; code.
func otherKey(fields []string) int {
	if len(fields) != 3 {
		return keyOther
	}
	return plainKey(number(fields[2]), number(fields[1])-1)
}

// kittyKey reads kitty's code:alternatives ; modifiers:event ; text.
func kittyKey(fields []string) int {
	code, _, _ := strings.Cut(fields[0], ":")
	mods, event := "1", ""
	if len(fields) > 1 {
		mods, event, _ = strings.Cut(fields[1], ":")
	}
	if event == "3" || isModifier(number(code)) {
		return keyNeutral
	}
	return plainKey(number(code), max(number(mods), 1)-1)
}

// isModifier reports whether code is a key like Shift or Caps Lock.
func isModifier(code int) bool {
	return code >= 57358 && code <= 57360 || code >= 57441 && code <= 57454
}

// plainKey returns the byte that code and mods mean.
func plainKey(code, mods int) int {
	switch mods &^ modLocks {
	case 0:
		if code < 0x80 {
			return code
		}
	case modCtrl:
		if code >= 'a' && code <= 'z' {
			return code - 'a' + 1
		}
		return controlKey(code)
	case modCtrl | modShift:
		return controlKey(code)
	}
	return keyOther
}

// controlKey maps the control keys that are not letters, by their own character and by the one on the
// same key of the usual keyboard.
func controlKey(code int) int {
	switch code {
	case '@', ' ', '2':
		return 0x00
	case '[', '\\', ']':
		return code - '@'
	case '^', '6':
		return 0x1e
	case '_', '-':
		return 0x1f
	}
	return keyOther
}

// number reads a decimal number; anything else is 0.
func number(s string) int { return numbers([]byte(s))[0] }
