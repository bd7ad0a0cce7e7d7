package tui

import (
	"io"
	"os"
	"strings"
	"testing"
)

func TestRender(t *testing.T) {
	l := Line{{Plain, "run "}, {Bold, "日本語"}, {Red, "\x1b[2Jred\n"}}
	for cols, want := range map[int]string{
		0:  "",
		3:  "run",
		5:  "run ",
		7:  "run \x1b[1m日\x1b[0m\x1b[31m", // the rest is checked below
		99: "run \x1b[1m日本語\x1b[0m",
	} {
		if got := render(l, cols, true); !strings.HasPrefix(got, want) {
			t.Errorf("%d columns: %q", cols, got)
		}
	}
	plain := render(l, 99, false)
	if strings.ContainsAny(plain, "\x1b\n") || !strings.HasPrefix(plain, "run 日本語") {
		t.Errorf("%q", plain)
	}
	if strings.Contains(render(l, 99, true), "\x1b[2J") {
		t.Error("a text commands the terminal")
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		part, whole float64
		want        string
	}{
		{0, 4, "░░░░"},
		{1, 4, "█░░░"},
		{4, 4, "████"},
		{9, 4, "████"},
		{-1, 4, "░░░░"},
		{1, 8, "▌░░░"},
		{1, 32, "▏░░░"},
		{1, 0, ""},
	} {
		if got := Bar(4, c.part, c.whole); got != c.want {
			t.Errorf("%v of %v: %q, not %q", c.part, c.whole, got, c.want)
		}
	}
}

// TestScreen checks that the terminal is restored with the last page on it, whatever was drawn
// before.
func TestScreen(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := Open(w)
	if err != nil {
		t.Fatal(err)
	}
	page := make([]Line, 100)
	for i := range page {
		page[i] = Text(Green, strings.Repeat("x", 200))
	}
	if err := s.Draw(page); err != nil {
		t.Fatal(err)
	}
	if err := s.Close([]Line{Text(Bold, "the end")}); err != nil {
		t.Fatal(err)
	}
	w.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text); strings.Count(got, strings.Repeat("x", 80)) != 24 || strings.Contains(got, strings.Repeat("x", 81)) ||
		!strings.HasPrefix(got, enter) || !strings.HasSuffix(got, leave+"the end\r\n") {
		t.Errorf("%q", got)
	}
}
