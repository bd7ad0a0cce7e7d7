package quote

import (
	"testing"
)

func TestQuote(t *testing.T) {
	for path, want := range map[string]string{
		"plain": "plain", "with space": "with space", "naïve/日本": "naïve/日本", "a\nb": `"a\nb"`, "\x1b[2J": `"\033[2J"`, `q"u`: `"q\"u"`,
		`b\s`: `"b\\s"`, "bad\xff": `"bad\377"`, "rtl\u202e": `"rtl\342\200\256"`, "nbsp\u00a0": `"nbsp\302\240"`, "\ufffd": "\ufffd", "": `""`,
		"a\u3164": `"a\343\205\244"`, "a\ufe0f": `"a\357\270\217"`, "\u2764\ufe0f": "\u2764\ufe0f", "a\u2800": `"a\342\240\200"`,
	} {
		got := Path(path)
		if got != want {
			t.Errorf("Quote(%q) = %s, want %s", path, got, want)
		}
		if back, err := Parse(got); err != nil || back != path {
			t.Errorf("Unquote(%s) = %q, %v", got, back, err)
		}
	}
}

// TestShow checks that Show makes every character of a line visible.
func TestShow(t *testing.T) {
	for line, want := range map[string]string{
		"plain\r\n": "plain\r\n", "\tna\u00efve \u65e5\u672c\n": "\tna\u00efve \u65e5\u672c\n", "a\x1b[m\xff\n": `a\x1b[m\xff` + "\n", "a\u202eb": `a\u202eb`,
		"eval(\ufe00\ufe0f\U000e0100)": `eval(\ufe00\ufe0f\U000e0100)`, "x\u3164\u115f\u1160\uffa0\u034f\u2800\u2028": `x\u3164\u115f\u1160\uffa0\u034f\u2800\u2028`,
		"\u2764\ufe0f\ufe0f": "\u2764\ufe0f" + `\ufe0f`, "a\u3000b": "a\u3000b",
	} {
		if got := Line(line); got != want {
			t.Errorf("Show(%q) = %q, want %q", line, got, want)
		}
	}
}

func FuzzQuote(f *testing.F) {
	f.Add("a\x00b\xff\u202e\"\\")
	f.Fuzz(func(t *testing.T, path string) {
		q := Path(path)
		if back, err := Parse(q); err != nil || back != path {
			t.Fatalf("%q becomes %s and then %q, %v", path, q, back, err)
		}
		for _, r := range q + Line(path) {
			if r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r < 0xa0 || r == 0x202e {
				t.Fatalf("%q has %q in it", q, r)
			}
		}
	})
}
