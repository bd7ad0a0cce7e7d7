package term

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func clean(t *testing.T, s string) string {
	t.Helper()
	var out bytes.Buffer
	w := NewSanitizingWriter(&out)
	if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestSanitize(t *testing.T) {
	long := strings.Repeat("x", maxSequence+10)
	for _, c := range []struct{ name, in, stream, cell string }{
		{"plain", "hello", "hello", "hello"},
		{"empty", "", "", ""},
		{"letters of all kinds", "zażółć 漢字 👩‍👩‍👧 e\u0301", "zażółć 漢字 👩‍👩‍👧 e\u0301", "zażółć 漢字 👩‍👩‍👧 e\u0301"},
		{"lines and tabs", "a\n\tb\n", "a\n\tb\n", `a\n\tb\n`},
		{"CR LF", "a\r\nb\r\n", "a\nb\n", `a\nb\n`},
		{"lone CR", "10%\r20%\r\n", "10%\n20%\n", `10%\n20%\n`},
		{"CR CR LF", "a\r\r\nb", "a\n\nb", `a\n\nb`},
		{"CR and two LF", "a\r\n\nb", "a\n\nb", `a\n\nb`},
		{"colour", "\x1b[1;31mred\x1b[0m", "red", "red"},
		{"cursor", "a\x1b[2Jb\x1b[10;10Hc", "ab\nc", "abc"},
		{"cursor to the right", "a\x1b[Cb\x1b[3Cc\x1b[0Cd", "a b   c d", "abcd"},
		{"cursor far to the right", "a\x1b[99999999999999999999Cb", "a" + strings.Repeat(" ", maxBlanks) + "b", "ab"},
		{"cursor to a column", "a\x1b[20Gb \x1b[40Gc", "a b c", "ab c"},
		{"cursor to lines", "\x1b[Ha\x1b[2;1Hb\x1b[3dc\n\x1b[Ad", "a\nb\nc\nd", `abc\nd`},
		{"private moves", "a\x1b[?1Cb\x1b[ Cc\x1b[>4Hd", "abcd", "abcd"},
		{"title with BEL", "a\x1b]0;evil\x07b", "ab", "ab"},
		{"title with ST", "a\x1b]0;evil\x1b\\b", "ab", "ab"},
		{"title with C1 ST", "a\x1b]0;evil\u009cb", "ab", "ab"},
		{"screen's title", "a\x1bkevil\x1b\\b", "ab", "ab"},
		{"clipboard", "a\x1b]52;c;ZXZpbA==\x07b", "ab", "ab"},
		{"link", "\x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\", "text", "text"},
		{"DCS", "a\x1bP+q544e\x1b\\b", "ab", "ab"},
		{"APC", "a\x1b_Gf=100;AAAA\x1b\\b", "ab", "ab"},
		{"PM and SOS", "a\x1b^x\x1b\\b\x1bXy\x1b\\c", "abc", "abc"},
		{"C1 CSI", "a\u009b31mb", "ab", "ab"},
		{"C1 OSC", "a\u009d0;evil\u009cb", "ab", "ab"},
		{"other C1", "a\u0085b\u008dc", "abc", `a\u0085b\u008dc`},
		{"raw C1 byte", "a\x9b31mb", "a\ufffd31mb", "a\ufffd31mb"},
		{"charset", "a\x1b(0b\x1b%@c", "abc", "abc"},
		{"full reset", "a\x1bcb", "ab", "ab"},
		{"BEL, BS, NUL, DEL", "a\x07b\x08c\x00d\x7fe", "abcde", `a\x07b\x08c\x00d\x7fe`},
		{"overrides", "a\u202egpj.exe\u202c\u2066\u2069\u200e\u200f", "agpj.exe", `a\u202egpj.exe\u202c\u2066\u2069\u200e\u200f`},
		{"separators", "a\u2028b", "ab", `a\u2028b`},
		{"invisible", "ma\u200bin\u2060\ufeff\u00ad.go\u3164", "main.go", `ma\u200bin\u2060\ufeff\u00ad.go\u3164`},
		{"hidden text", "a\U000e0068\U000e0069", "a", `a\U000e0068\U000e0069`},
		{"joiners", "a\u200db\n\u200c\ufe0fc می\u200cخواهم ❤\ufe0f", "ab\nc می\u200cخواهم ❤\ufe0f", `a\u200db\n\u200c\ufe0fc می` + "\u200c" + `خواهم ❤` + "\ufe0f"},
		{"keys", "1\ufe0f\u20e3", "1\u20e3", `1\ufe0f` + "\u20e3"},
		{"bad UTF-8", "a\xffb\xc3(c\xe2\x82", "a\ufffdb\ufffd(c\ufffd\ufffd", "a\ufffdb\ufffd(c\ufffd\ufffd"},
		{"surrogate", "\xed\xa0\x80", "\ufffd\ufffd\ufffd", "\ufffd\ufffd\ufffd"},
		{"overlong ESC", "\xc0\x9b[31m", "\ufffd\ufffd[31m", "\ufffd\ufffd[31m"},
		{"ESC at the end", "a\x1b", "a\ufffd", "a\ufffd"},
		{"cut off at the end", "a\x1b[31", "a\ufffd", "a\ufffd"},
		{"cut off at a line end", "a\x1b]0;evil\nb", "a\ufffd\nb", `a` + "\ufffd" + `\nb`},
		{"endless", "a\x1b]" + long + "b", "a\ufffd" + long[:10] + "b", "a\ufffd" + long[:10] + "b"},
		{"endless CSI", "\x1b[" + strings.Repeat("1", maxSequence+1), "\ufffd1", "\ufffd1"},
		{"aborted", "a\x1b[31\x18mb", "amb", "amb"},
		{"sequence in a sequence", "a\x1b[\x1b[31mb", "ab", "ab"},
		{"put together by stripping", "\x1b\x1b[m[31mx", "[31mx", "[31mx"},
		{"control inside", "a\x1b[3\x071mb", "ab", `a\x07b`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := clean(t, c.in); got != c.stream {
				t.Errorf("stream: %q, want %q", got, c.stream)
			}
			if got := Sanitize(c.in); got != c.cell {
				t.Errorf("cell: %q, want %q", got, c.cell)
			}
		})
	}
}

func TestSanitizingWriterHoldsLittle(t *testing.T) {
	w := NewSanitizingWriter(discard{})
	for range 1000 {
		w.Write([]byte("\x1b]" + strings.Repeat("x", 1000)))
	}
	if n := cap(w.c.out) + cap(w.c.lex.params); n > 64<<10 {
		t.Errorf("%d bytes are held", n)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

type broken struct{ left int }

var errBroken = errors.New("broken")

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestSanitizingWriterReportsErrors(t *testing.T) {
	w := NewSanitizingWriter(&broken{left: 16 << 10})
	n, err := w.Write(make([]byte, 0))
	if n != 0 || err != nil {
		t.Fatalf("empty Write = %d, %v", n, err)
	}
	n, err = w.Write(bytes.Repeat([]byte("x"), 40<<10))
	if n != 16<<10 || !errors.Is(err, errBroken) {
		t.Errorf("Write = %d, %v; want what was written before the error, and the error", n, err)
	}
}

// FuzzSanitize checks that the output is harmless, the same for any cut of the input, and unchanged
// by a second pass.
func FuzzSanitize(f *testing.F) {
	for _, s := range []string{
		"a\x1b[31mb\x1b]0;x\x07\r\n", "\x9b\xc2\x9b1m\xc2", "\x1bP\x1b\\\x1b_\n\r\r\n", "\u202e\u2066\t\x00\x7f\xed\xa0\x80",
	} {
		f.Add([]byte(s), uint8(2))
	}
	for _, s := range []string{ // a joiner after a replaced character
		"\xed\x00\u200d", "\xed\t\u200c", "\u2764\x07\ufe0f", "\u2764\n\ufe0f", "\ufe0f\x01\u200d",
	} {
		f.Add([]byte(s), uint8(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, cut uint8) {
		whole := clean(t, string(in))
		var out bytes.Buffer
		w := NewSanitizingWriter(&out)
		for chunk := range chunks(in, int(cut)) {
			w.Write(chunk)
		}
		w.Flush()
		if out.String() != whole {
			t.Fatalf("in pieces: %q, in one: %q", out.String(), whole)
		}
		mustBeHarmless(t, whole, "\n\t")
		if again := clean(t, whole); again != whole {
			t.Fatalf("cleaning %q again gives %q", whole, again)
		}
		cell := Sanitize(string(in))
		mustBeHarmless(t, cell, "")
		if again := Sanitize(cell); again != cell {
			t.Fatalf("cleaning %q again gives %q", cell, again)
		}
	})
}

func mustBeHarmless(t *testing.T, s, allowed string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Fatalf("%q is no UTF-8", s)
	}
	for _, r := range s {
		if strings.ContainsRune(allowed, r) {
			continue
		}
		if r < 0x20 || r >= 0x7f && r <= 0x9f || misleads(r) {
			t.Fatalf("%q holds %U", s, r)
		}
	}
}

func BenchmarkSanitizingWriter(b *testing.B) {
	text := bytes.Repeat([]byte("\x1b[32mok\x1b[0m  \tgithub.com/bothy-dev/bothy/internal/term\t0.012s\r\n"), 1000)
	w := NewSanitizingWriter(discard{})
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		w.Write(text)
	}
}

func BenchmarkModes(b *testing.B) {
	text := bytes.Repeat([]byte("\x1b[32mok\x1b[0m  \tgithub.com/bothy-dev/bothy/internal/term\t0.012s\r\n"), 1000)
	var m Modes
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		m.Write(text)
	}
}
