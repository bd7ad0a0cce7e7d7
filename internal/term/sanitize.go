package term

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxSequence is the maximum length of an escape sequence. Text after that is shown again, so that
// an endless sequence cannot hide the rest.
const maxSequence = 4 << 10

// Sanitize makes untrusted text safe to show in one line, such as a cell of a table. It removes escape
// sequences completely. Control, bidirectional and invisible characters, line ends and tabs are shown as
// \x07, \u202e, \u200b, \n, \t. Invalid UTF-8 becomes U+FFFD, and so does a sequence that was cut off.
func Sanitize(s string) string {
	if isPlain(s) {
		return s
	}
	c := cleaner{cell: true}
	c.feedBytes([]byte(s))
	c.finish()
	return string(c.out)
}

// isPlain reports whether s is printable ASCII, which nearly everything is.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= del {
			return false
		}
	}
	return true
}

// SanitizingWriter makes an untrusted stream safe to show on a terminal. Lines and tabs stay, and CR and
// CR LF become LF. A cursor movement leaves blanks or a line end, so that words stay apart. Other escape
// sequences and all other control, bidirectional and invisible characters are removed. Invalid UTF-8
// becomes U+FFFD. An escape sequence ends with its line at the latest; one that was cut off leaves a
// U+FFFD. The result does not depend on how the stream is split into writes. It is not safe for
// concurrent use.
type SanitizingWriter struct {
	w io.Writer
	c cleaner
}

// NewSanitizingWriter writes the sanitized text to w. Call Flush at the end.
func NewSanitizingWriter(w io.Writer) *SanitizingWriter {
	return &SanitizingWriter{w: w}
}

// Write takes the next piece. It holds back at most one unfinished character.
func (w *SanitizingWriter) Write(p []byte) (int, error) {
	done := 0
	for chunk := range slices.Chunk(p, 16<<10) {
		w.c.feedBytes(chunk)
		if err := w.drainClean(); err != nil {
			return done, err
		}
		done += len(chunk)
	}
	return done, nil
}

// Flush ends the stream: it writes the replacement of an unfinished character or sequence at its
// end. It does not close the writer below.
func (w *SanitizingWriter) Flush() error {
	w.c.finish()
	return w.drainClean()
}

func (w *SanitizingWriter) drainClean() error {
	if len(w.c.out) == 0 {
		return nil
	}
	_, err := w.w.Write(w.c.out)
	w.c.out = w.c.out[:0]
	return err
}

// cleaner is the common part of Sanitize and SanitizingWriter.
type cleaner struct {
	cell bool // one line, in which removed control characters are made visible
	dec  decoder
	lex  lexer
	cr   bool // the line end just written was a CR: an LF after it belongs to it
	last rune // the last character of text: some characters only make sense after certain others
	out  []byte
}

func (c *cleaner) feedBytes(p []byte) {
	for _, b := range p {
		c.dec.addByte(b, c.takeClean)
	}
}

func (c *cleaner) takeClean(r rune) {
	if r == '\n' || r == '\r' {
		c.cutSequence() // the next line may be another writer's
		c.lineEnd(r)
		return
	}
	switch c.lex.nextRune(r) {
	case tokenText:
		c.appendText(r)
	case tokenControl:
		c.control(r)
	case tokenCSI:
		c.separateMove()
	}
	if c.lex.size >= maxSequence {
		c.cutSequence()
	}
}

// cutSequence ends the sequence that is being read, and leaves a trace of it.
func (c *cleaner) cutSequence() {
	if c.lex.place == inText {
		return
	}
	c.lex.reset()
	c.appendText(utf8.RuneError)
}

func (c *cleaner) lineEnd(r rune) {
	if r == '\n' && c.cr {
		c.cr = false
		return
	}
	if c.cell {
		c.appendASCII(`\n`)
	} else {
		c.appendASCII("\n")
	}
	c.cr = r == '\r'
}

func (c *cleaner) appendText(r rune) {
	if Hides(c.last, r) {
		c.control(r)
		return
	}
	c.cr, c.last = false, r
	c.out = utf8.AppendRune(c.out, r)
}

// maxBlanks is the maximum number of blanks that replace a cursor's move to the right.
const maxBlanks = 200

// separateMove writes a separator between the text before a cursor movement and the text after it. Programs that
// draw a screen move the cursor instead of writing blanks and line ends.
func (c *cleaner) separateMove() {
	if c.cell || c.lex.inter != 0 || len(c.lex.params) > 0 && c.lex.params[0] >= '<' {
		return
	}
	begins := c.last == 0 || c.last == '\n'
	switch c.lex.final {
	case 'C', 'a': // to the right
		if n := max(1, numbers(c.lex.params)[0]); !begins {
			c.appendASCII(strings.Repeat(" ", min(n, maxBlanks)))
		}
	case 'G', '`': // to a column
		if !begins && c.last != ' ' {
			c.appendASCII(" ")
		}
	case 'A', 'B', 'E', 'F', 'H', 'd', 'e', 'f': // to another line
		if !begins {
			c.appendASCII("\n")
		}
	}
}

// control handles a character that must not reach the terminal.
func (c *cleaner) control(r rune) {
	c.cr = false
	switch {
	case r == '\t' && c.cell:
		c.appendASCII(`\t`)
	case r == '\t':
		c.appendASCII("\t")
	case c.cell && r < 0x80:
		c.appendASCII(fmt.Sprintf(`\x%02x`, r))
	case c.cell && r > 0xffff:
		c.appendASCII(fmt.Sprintf(`\U%08x`, r))
	case c.cell:
		c.appendASCII(fmt.Sprintf(`\u%04x`, r))
	}
}

// appendASCII appends ASCII text.
func (c *cleaner) appendASCII(ascii string) {
	c.last = rune(ascii[len(ascii)-1])
	c.out = append(c.out, ascii...)
}

// finish ends the text: an open sequence or character will not be completed.
func (c *cleaner) finish() {
	for range c.dec.n {
		c.takeClean(utf8.RuneError)
	}
	c.dec.n = 0
	c.cutSequence()
	c.cr = false
}
