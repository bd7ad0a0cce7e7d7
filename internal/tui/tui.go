// Package tui draws a page on a terminal repeatedly, without flicker, and restores the terminal at the
// end.
package tui

import (
	"bytes"
	"os"
	"strings"

	"github.com/bothy-dev/bothy/internal/term"
)

// Style is the look of a piece of text, as a control sequence.
type Style string

// Styles. They are those of the terminal's own colours.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Piece is text of one style. Control sequences in it are shown, not executed.
type Piece struct {
	Style Style
	Text  string
}

// Of returns a piece in this style.
func (s Style) Of(text string) Piece { return Piece{s, text} }

// Line is a line of a page.
type Line []Piece

// Text returns a line of one piece.
func Text(s Style, text string) Line { return Line{s.Of(text)} }

// Screen is a terminal that a page is drawn on.
type Screen struct {
	f      *os.File
	styled bool
}

// Control sequences for the terminal.
const (
	enter = "\x1b[?1049h\x1b[?25l" // another screen, no cursor
	leave = "\x1b[?25h\x1b[?1049l"
	home  = "\x1b[H"
	begin = "\x1b[?2026h" // the following output appears at once, if the terminal supports it
	end   = "\x1b[?2026l"
	clear = "\x1b[K" // to the end of the line
	below = "\x1b[J" // everything that follows
	reset = "\x1b[0m"
)

// Open starts drawing on a terminal. The caller must close the screen.
func Open(f *os.File) (*Screen, error) {
	_, err := f.WriteString(enter)
	return &Screen{f: f, styled: Styled()}, err
}

// Styled reports whether the user wants colours: see no-color.org.
func Styled() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// Size returns how many lines and columns a page may have.
func (s *Screen) Size() (rows, cols int) {
	r, c, err := term.Size(s.f)
	if err != nil || r == 0 || c == 0 {
		return 24, 80
	}
	return int(r), int(c)
}

// Draw replaces the last page. Parts that do not fit are cut off.
func (s *Screen) Draw(page []Line) error {
	rows, cols := s.Size()
	var b bytes.Buffer
	b.WriteString(begin + home)
	for i, l := range page[:min(len(page), rows)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(render(l, cols, s.styled) + clear)
	}
	b.WriteString(below + end)
	_, err := s.f.Write(b.Bytes())
	return err
}

// Close restores the terminal. last, if not empty, is shown on it as a last page.
func (s *Screen) Close(last []Line) error {
	_, cols := s.Size()
	var b strings.Builder
	b.WriteString(leave)
	for _, l := range last {
		b.WriteString(render(l, cols, s.styled) + "\r\n")
	}
	_, err := s.f.WriteString(b.String())
	return err
}

// render returns a line of at most this many columns.
func render(l Line, cols int, styled bool) string {
	var b strings.Builder
	for _, p := range l {
		text, width := cutText(term.Line(p.Text), cols)
		cols -= width
		if text == "" {
			continue
		}
		if styled && p.Style != Plain {
			text = "\x1b[" + string(p.Style) + "m" + text + reset
		}
		b.WriteString(text)
	}
	return b.String()
}

// cutText returns as much of a text as fits into the columns, and the columns it takes.
func cutText(text string, cols int) (string, int) {
	width := 0
	for i, r := range text {
		w := columns(r)
		if width+w > cols {
			return text[:i], width
		}
		width += w
	}
	return text, width
}

// columns returns how many columns a character takes, on the safe side: an overestimate leaves space, an
// underestimate would break the page.
func columns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case r >= 0x2010 && r < 0x2e80: // punctuation, arrows, blocks, lines
		return 1
	case r >= 0x370 && r < 0x1100: // Greek, Cyrillic, Hebrew, Arabic, the scripts of India
		return 1
	}
	return 2
}

// Width returns how many columns a text takes.
func Width(text string) int {
	_, n := cutText(text, 1<<30)
	return n
}

// Bar returns a partly filled bar of this many columns.
func Bar(cols int, part, whole float64) string {
	const eighths = " ▏▎▍▌▋▊▉"
	if whole <= 0 || cols <= 0 {
		return ""
	}
	n := int(max(0, min(1, part/whole)) * float64(cols) * 8)
	bar := strings.Repeat("█", n/8)
	if n%8 > 0 {
		bar += string([]rune(eighths)[n%8])
	}
	return bar + strings.Repeat("░", cols-Width(bar))
}
