package console

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/tui"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const traffics = "SANDBOX\tHOST\tVERDICT\tCOUNT\tLAST SEEN\tWHY\n" +
	"shell-app\tevil.example\tdeny\t2\t2026-11-29T19:11:26Z\tno rule allows evil.example\n" +
	"shell-app\tapi.github.com:443\tallow\t1\t2026-11-29T19:11:26Z\trule \"api.github.com:443 GET,HEAD\" (preset:github-read) allows it\n"

func tableOf(t *testing.T, text string, width int) string {
	t.Helper()
	var out bytes.Buffer
	w := &Table{w: &out, width: width}
	fmt.Fprint(w, text)
	must(t, w.Flush())
	return out.String()
}

// TestTableFolds checks that at every width no line is too long, no word is broken, and all words
// stay in order.
func TestTableFolds(t *testing.T) {
	var all []string
	for row := range strings.SplitSeq(strings.TrimSpace(traffics), "\n") {
		all = append(all, strings.Fields(row)...)
	}
	for width := 40; width <= 180; width++ {
		got := tableOf(t, traffics, width)
		if n := len(strings.Fields(got)); n != len(all) {
			t.Errorf("%d columns: %d words of %d:\n%s", width, n, len(all), got)
		}
		for _, word := range all {
			if !strings.Contains(got, word) {
				t.Errorf("%d columns: %q is broken:\n%s", width, word, got)
			}
		}
		for line := range strings.Lines(got) {
			if tui.Width(strings.TrimRight(line, " \n")) > width {
				t.Errorf("%d columns: too long: %q", width, line)
			}
		}
	}
	want := `SANDBOX    HOST                VERDICT  COUNT
    LAST SEEN             WHY
shell-app  evil.example        deny     2
    2026-11-29T19:11:26Z  no rule allows evil.example
shell-app  api.github.com:443  allow    1
    2026-11-29T19:11:26Z  rule "api.github.com:443 GET,HEAD"
                          (preset:github-read) allows it
`
	if got := tableOf(t, traffics, 60); got != want {
		t.Errorf("60 columns:\n%s\nnot\n%s", got, want)
	}
}

// TestTableStays checks that each row is one line if the output is not a terminal or if all fits.
func TestTableStays(t *testing.T) {
	for _, width := range []int{0, 200} {
		if got := tableOf(t, traffics, width); strings.Count(got, "\n") != 3 {
			t.Errorf("%d columns:\n%s", width, got)
		}
	}
	if got := tableOf(t, "", 80); got != "" {
		t.Errorf("nothing is written %q", got)
	}
}

// TestTableOdd checks wide characters, a word that fits nowhere, empty cells, and lines outside the
// table.
func TestTableOdd(t *testing.T) {
	long := strings.Repeat("x", 50)
	got := tableOf(t, "A\tB\n日本語\t"+long+"\n\t\n\nand a sentence that is not of the table, but long all the same\n", 30)
	for _, part := range []string{"日本語", long, "\n\nand a sentence that is not of\nthe table, but long all the\nsame\n"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in\n%s", part, got)
		}
	}
}
