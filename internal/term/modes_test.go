package term

import (
	"bytes"
	"strings"
	"testing"
)

func TestModesUndo(t *testing.T) {
	for _, c := range []struct{ name, output, want string }{
		{"nothing", "hello\r\n\x1b[2J\x1b[10;20H", ""},
		{"hidden cursor", "\x1b[?25l", "\x1b[?25h"},
		{"and shown again", "\x1b[?25l\x1b[?25h", ""},
		{"alternate screen", "\x1b[?1049h", "\x1b[?1049l"},
		{"older alternate screen", "\x1b[?47h", "\x1b[?47l"},
		{"alternate screen left", "\x1b[?1049h\x1b[?1049l", ""},
		{"several in one", "\x1b[?1002;1006;25h", "\x1b[?1002l\x1b[?1006l"},
		{"bracketed paste and focus", "\x1b[?2004h\x1b[?1004h", "\x1b[?1004l\x1b[?2004l"},
		{"synchronized output first", "\x1b[?25l\x1b[?2026h", "\x1b[?2026l\x1b[?25h"},
		{"no wrap", "\x1b[?7l", "\x1b[?7h"},
		{"unknown mode", "\x1b[?31337h", ""},
		{"public mode", "\x1b[4h", ""},
		{"keypad", "\x1b=", "\x1b>"},
		{"kitty keys", "\x1b[>1u\x1b[>5u", "\x1b[<2u"},
		{"kitty keys popped", "\x1b[>1u\x1b[<u", ""},
		{"kitty keys set", "\x1b[=5u", "\x1b[=0;1u"},
		{"kitty keys set after push", "\x1b[>1u\x1b[=5u", "\x1b[<1u"},
		{"kitty keys of each screen", "\x1b[>1u\x1b[?1049h\x1b[>1u", "\x1b[<1u\x1b[?1049l\x1b[<1u"},
		{"query of kitty keys", "\x1b[?u", ""},
		{"modifyOtherKeys", "\x1b[>4;2m", "\x1b[>4m"},
		{"modifyOtherKeys off", "\x1b[>4;2m\x1b[>4m", ""},
		{"colour", "\x1b[31m", "\x1b[m"},
		{"colour ending in zero", "\x1b[38;5;0m", "\x1b[m"},
		{"colour off", "\x1b[31m\x1b[0m", ""},
		{"line drawing", "\x1b(0", "\x1b(B"},
		{"shift out", "\x0e", "\x0f"},
		{"cursor shape", "\x1b[5 q", "\x1b[0 q"},
		{"margins", "\x1b[3;10r", "\x1b7\x1b[r\x1b8"},
		{"origin", "\x1b[?6h", "\x1b[?6l\x1b[999;1H"},
		{"full reset", "\x1b[?1049h\x1b[>1u\x1b[?25l\x1b[31m\x1bc", ""},
		{"soft reset", "\x1b[?25l\x1b[?1h\x1b[31m\x1b[3;9r\x1b[!p", ""},
		{"soft reset leaves screen and mouse", "\x1b[?1049h\x1b[?1000h\x1b[!p", "\x1b[?1049l\x1b[?1000l"},
		{"eight bit", "\u009b?25l", "\x1b[?25h"},
		{"control inside", "\x1b[?2\n5l", "\x1b[?25h"},
		{"aborted", "\x1b[?25\x18l", ""},
		{"restarted", "\x1b[?10\x1b[?25l", "\x1b[?25h"},
		{"in a title", "\x1b]0;[?25l\x07", ""},
		{"title ended by ST", "\x1b]0;x\x1b\\\x1b[?25l", "\x1b[?25h"},
		{"died in a title", "\x1b[?25l\x1b]0;x", "\x1b\\\x1b[?25h"},
		{"died in a sequence", "\x1b[12", "\x1b\\"},
		{"too many parameters", "\x1b[?" + strings.Repeat("1;", 200) + "25l", ""},
		{"huge number", "\x1b[?99999999999999999999h\x1b[<99999999999999999999u", ""},
		{"pushed for ever", strings.Repeat("\x1b[>1u", 1000), "\x1b[<99u"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Modes
			if n, err := m.Write([]byte(c.output)); n != len(c.output) || err != nil {
				t.Fatalf("Write = %d, %v", n, err)
			}
			if got := string(m.Undo()); got != c.want {
				t.Errorf("Undo = %q, want %q", got, c.want)
			}
		})
	}
}

// FuzzModes checks that Undo brings any terminal to rest, is short, and does not depend on how the
// output was split.
func FuzzModes(f *testing.F) {
	f.Add([]byte("\x1b[?1049h\x1b[>1u\x1b[?25;1006h\x1b(0\x0e"), uint8(1))
	f.Add([]byte("\x1b[3;9r\x1b[?6h\x1b[31m\x1b[2 q\x1b[>4;2m\x1b=\xc2\x9b?7l\x1b]x"), uint8(3))
	f.Add([]byte("\x1b[=3;2u\x1b[>1u\x1b[?47h\x1b[=1u\x1b[!p\x1bc"), uint8(7))
	f.Fuzz(func(t *testing.T, output []byte, cut uint8) {
		var whole, pieces Modes
		whole.Write(output)
		for chunk := range chunks(output, int(cut)) {
			pieces.Write(chunk)
		}
		undo := whole.Undo()
		if got := pieces.Undo(); !bytes.Equal(got, undo) {
			t.Fatalf("in pieces: %q, in one: %q", got, undo)
		}
		if len(undo) > 512 {
			t.Fatalf("Undo has %d bytes", len(undo))
		}
		whole.Write(undo)
		if left := whole.Undo(); len(left) > 0 {
			t.Fatalf("after %q there is still %q to undo", undo, left)
		}
	})
}

// chunks splits p into pieces of varying sizes up to about size.
func chunks(p []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for i := 0; len(p) > 0; i++ {
			n := min((size*(i+1))%7+1, len(p))
			if !yield(p[:n]) {
				return
			}
			p = p[n:]
		}
	}
}
