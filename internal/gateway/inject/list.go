package inject

import (
	"bytes"
	"strings"
)

// This file handles texts that are written as lists of numbers, one for each byte, as programs
// print bytes: [115, 107], 73:6b, 0x73,0x6b.

// listed reports whether a form is a list of numbers.
func (f *form) listed() bool { return f.kind == decimals || f.kind == hexes }

// separator are the characters between two numbers of a list. At least one is needed.
const separator = " ,:;-\t\r\n"

// maxBetween is how many separators may follow each other: enough for one number a line, indented.
const maxBetween = 40

// list compares the form with a list of numbers from start on, as match does.
func (f *form) list(b []byte, start int) (end int, more bool) {
	i := start
	for n := range f.symbols {
		j := i
		for n > 0 && j < len(b) && j-i < maxBetween && strings.IndexByte(separator, b[j]) >= 0 {
			j++
		}
		switch {
		case j == len(b):
			return -1, true
		case j == i && n > 0:
			return -1, false
		}
		v, next, unsure := f.one(b, j)
		if n == len(f.symbols)-1 {
			return f.last(n, v, next, unsure)
		}
		switch {
		case unsure:
			return -1, true
		case v >= 128 || !f.symbols[n].has(byte(v)):
			return -1, false
		}
		i = next
	}
	return i, false
}

// last decides by the last number, which ends at an index. A digit behind it does not belong to it,
// and does not hide it: 650 contains the 65 that is searched for.
func (f *form) last(n, v, next int, unsure bool) (end int, more bool) {
	switch is := func(v int) bool { return v < 128 && f.symbols[n].has(byte(v)) }; {
	case is(v):
		return next, false
	case unsure:
		return -1, true
	case f.kind == decimals && v >= 100 && is(v/10):
		return next - 1, false
	}
	return -1, false
}

// beginsList reports whether a text is at most the first number of a list: many texts end in a
// number. Holding those back would stall streams, and the number is only one character.
func (f *form) beginsList(b []byte) bool {
	_, end, _ := f.one(b, 0)
	return len(bytes.TrimLeft(b[end:], separator)) == 0
}

// one reads a number. more reports that later bytes could make it another one.
func (f *form) one(b []byte, i int) (v, end int, more bool) {
	size, base := 3, 10
	if f.kind == hexes {
		size, base = 2, 16
		if b[i] == '0' && i+1 < len(b) && b[i+1]|0x20 == 'x' {
			i += 2
		}
	}
	v, n := number(b, i, size, base)
	return v, i + n, n < size && i+n == len(b)
}

// numbers returns the ways to write a character in a list.
func (f *form) numbers(c byte) (list []string) {
	if f.kind == decimals {
		list = append(list, decimal(c))
		if c < 100 {
			list = append(list, "0"+decimal(c))
		}
		return list
	}
	for _, h := range hexOf(c) {
		list = append(list, h, "0x"+h, "0X"+h)
	}
	return list
}

// separators returns the texts that may be between two numbers, up to a size.
func separators(size int) []string {
	list := strings.Split(separator, "")
	for i := 0; i < len(list); i++ {
		if len(list[i]) < size {
			for _, c := range separator {
				list = append(list, list[i]+string(c))
			}
		}
	}
	return list
}

// coverList overwrites the digits of a list, which remains a list of bytes.
func coverList(dst, raw []byte) {
	for i, c := range raw {
		prefix := c == '0' && i+1 < len(raw) && raw[i+1]|0x20 == 'x'
		if digit(c) < 16 && !prefix {
			dst[i] = '1'
		}
	}
}
