package term

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// privateModes are the DEC private modes with the same initial state on all terminals. Modes whose
// initial state differs between terminals are left alone, because it is unknown how to undo them.
var privateModes = [...]struct {
	number int
	on     bool
}{
	{2026, false},                                                          // synchronized output: first, so that the rest is visible
	{1, false},                                                             // application cursor keys
	{5, false},                                                             // reverse screen
	{7, true},                                                              // wrap long lines
	{9, false}, {1000, false}, {1001, false}, {1002, false}, {1003, false}, // mouse reports
	{1005, false}, {1006, false}, {1015, false}, {1016, false}, // and their encodings
	{12, false},   // blinking cursor
	{25, true},    // cursor shown
	{66, false},   // application keypad
	{69, false},   // left and right margins
	{1004, false}, // focus reports
	{2004, false}, // bracketed paste
	{2031, false}, // colour scheme reports
	{2048, false}, // size reports
	{9001, false}, // Windows key reports
}

// Modes watches a program's output to a terminal and knows what to undo if the program ends now: private
// modes, the alternate screen, keypad, keyboard protocols, character set, margins, cursor shape,
// colours. It is an io.Writer that stores no text, and safe for concurrent use. Its zero value is a
// terminal at rest.
type Modes struct {
	mu    sync.Mutex
	dec   decoder
	lex   lexer
	state modeState
}

// modeState is everything that is not at rest.
type modeState struct {
	away      [len(privateModes)]bool
	alt       int         // the mode that entered the alternate screen, or 0
	keyboards [2]keyboard // kitty's protocol keeps one per screen: main, alternate
	otherKeys bool        // xterm's modifyOtherKeys
	origin    bool
	margins   bool
	keypad    bool
	graphics  bool // G0 is not ASCII
	shifted   bool // G1 is in use
	cursor    bool
	styled    bool
}

// keyboard is the state of the kitty keyboard protocol on one screen.
type keyboard struct {
	pushed int
	set    bool
}

// Write takes the next piece of output. It never fails.
func (m *Modes) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range p {
		if m.lex.place == inText && m.dec.n == 0 && !matters(b) {
			continue
		}
		m.dec.addByte(b, m.seeSequence)
	}
	return len(p), nil
}

// matters reports whether b can change anything within text: ESC, the two shifts, and the first
// byte of the C1 controls.
func matters(b byte) bool {
	return b == esc || b == 0x0e || b == 0x0f || b == 0xc2
}

func (m *Modes) seeSequence(r rune) {
	switch m.lex.nextRune(r) {
	case tokenControl:
		if r == 0x0e || r == 0x0f {
			m.state.shifted = r == 0x0e
		}
	case tokenEscape:
		m.state.escape(m.lex.inter, m.lex.final)
	case tokenCSI:
		m.state.seeCSI(m.lex.params, m.lex.inter, m.lex.final)
	}
}

func (s *modeState) escape(inter, final byte) {
	switch {
	case inter == '(':
		s.graphics = final != 'B'
	case inter != 0:
	case final == 'c': // full reset
		*s = modeState{}
	case final == '=', final == '>':
		s.keypad = final == '='
	}
}

func (s *modeState) seeCSI(params []byte, inter, final byte) {
	var prefix byte
	if len(params) > 0 && params[0] >= '<' {
		prefix, params = params[0], params[1:]
	}
	plain := strings.Trim(string(params), "0;") == "" // only defaults
	switch string([]byte{prefix, inter, final}) {
	case "?\x00h", "?\x00l":
		for _, n := range numbers(params) {
			s.private(n, final == 'h')
		}
	case ">\x00u", "<\x00u", "=\x00u":
		s.keyboard().applyFlags(prefix, numbers(params))
	case ">\x00m", ">\x00n":
		s.modifyOtherKeys(numbers(params), final)
	case "\x00\x00m":
		s.styled = !plain
	case "\x00\x00r":
		s.margins = !plain
	case "\x00 q":
		s.cursor = !plain
	case "\x00!p":
		s.softReset()
	}
}

func (s *modeState) private(n int, on bool) {
	switch n {
	case 6:
		s.origin = on
		return
	case 47, 1047, 1049:
		s.screen(n, on)
		return
	}
	for i, m := range privateModes {
		if m.number == n {
			s.away[i] = on != m.on
			return
		}
	}
}

func (s *modeState) screen(n int, on bool) {
	s.alt = 0
	if on {
		s.alt = n
		return
	}
	s.keyboards[1] = keyboard{}
}

func (s *modeState) keyboard() *keyboard {
	if s.alt != 0 {
		return &s.keyboards[1]
	}
	return &s.keyboards[0]
}

func (k *keyboard) applyFlags(op byte, args []int) {
	first, second := args[0], 1
	if len(args) > 1 {
		second = args[1]
	}
	switch op {
	case '>':
		k.pushed = min(k.pushed+1, 99)
	case '<':
		n := max(first, 1)
		if n > k.pushed { // emptying the stack resets the flags too
			k.set = false
		}
		k.pushed = max(k.pushed-n, 0)
	case '=':
		// After a push only the pushed flags change, and the pop removes them.
		if k.pushed == 0 && second != 3 {
			k.set = first != 0 || (k.set && second == 2)
		}
	}
}

func (s *modeState) modifyOtherKeys(args []int, final byte) {
	switch {
	case final == 'n':
		s.otherKeys = s.otherKeys || args[0] == 4
	case args[0] == 4:
		s.otherKeys = len(args) > 1 && args[1] != 0
	case args[0] == 0 && len(args) == 1: // CSI > m: all of them
		s.otherKeys = false
	}
}

// softReset is DECSTR, which leaves screens, mouse and keyboards alone.
func (s *modeState) softReset() {
	for _, n := range []int{1, 66} {
		s.private(n, false)
	}
	s.private(25, true)
	s.origin, s.margins, s.keypad, s.graphics, s.shifted, s.styled = false, false, false, false, false, false
}

// numbers reads "1;2;3". A missing or invalid number counts as 0.
func numbers(params []byte) []int {
	var all []int
	for part := range bytes.SplitSeq(params, []byte{';'}) {
		n, _ := strconv.Atoi(string(part))
		all = append(all, max(n, 0))
	}
	return all
}

// Undo returns the shortest output that brings the terminal to rest. It is empty if the terminal is
// at rest. It does not change m; writing it to m does.
func (m *Modes) Undo() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []byte
	if m.lex.place != inText { // the program was interrupted inside a sequence
		out = append(out, "\x1b\\"...)
	}
	return m.state.undoSequence(out)
}

func (s *modeState) undoSequence(out []byte) []byte {
	// The alternate screen comes first, because leaving it restores the colours and cursor of the time
	// when it was entered. Its keyboard comes before, while the screen still exists.
	if s.alt != 0 {
		out = s.keyboards[1].undoSequence(out)
		out = fmt.Appendf(out, "\x1b[?%dl", s.alt)
	}
	out = s.keyboards[0].undoSequence(out)
	for i, m := range privateModes {
		if s.away[i] {
			out = fmt.Appendf(out, "\x1b[?%d%c", m.number, letter(m.on))
		}
	}
	for _, part := range []struct {
		needed bool
		undo   string
	}{
		{s.otherKeys, "\x1b[>4m"},
		{s.keypad, "\x1b>"},
		{s.graphics, "\x1b(B"},
		{s.shifted, "\x0f"},
		{s.margins, "\x1b7\x1b[r\x1b8"},   // resetting them moves the cursor
		{s.origin, "\x1b[?6l\x1b[999;1H"}, // so does this, and nothing can prevent it
		{s.cursor, "\x1b[0 q"},
		{s.styled, "\x1b[m"},
	} {
		if part.needed {
			out = append(out, part.undo...)
		}
	}
	return out
}

func (k keyboard) undoSequence(out []byte) []byte {
	if k.pushed > 0 {
		out = fmt.Appendf(out, "\x1b[<%du", k.pushed)
	}
	if k.set {
		out = append(out, "\x1b[=0;1u"...)
	}
	return out
}

func letter(on bool) byte {
	if on {
		return 'h'
	}
	return 'l'
}
