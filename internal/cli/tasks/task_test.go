package tasks

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/hostpath"
)

func TestParseFuture(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"8h":                   now.Add(8 * time.Hour),
		"2026-12-31T18:00:00Z": time.Date(2026, 12, 31, 18, 0, 0, 0, time.UTC),
		"2026-12-31":           time.Date(2026, 12, 31, 0, 0, 0, 0, time.Local),
	} {
		if got, err := parseFuture("due", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"soon", "-1h", "31.12.2026"} {
		if got, err := parseFuture("due", text, now); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	if got, err := parseFuture("due", "", now); got != nil || err != nil {
		t.Errorf("nothing is %v, %v", got, err)
	}
}

func TestParseLink(t *testing.T) {
	for text, want := range map[string]string{
		"bd-a":                 "blocks bd-a",
		"discovered-from:bd-a": "discovered-from bd-a",
		"waits-for:a:b":        "waits-for a:b",
		"external:x:y":         "blocks external:x:y",
	} {
		l, err := parseLink(text)
		if got := string(l.Kind) + " " + l.On; err != nil || got != want {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
	if _, err := parseLink("related:"); err == nil {
		t.Error("a dependency on nothing is read")
	}
}

// TestDrawnTexts checks that any title is drawn as plain text.
func TestDrawnTexts(t *testing.T) {
	evil := "a\"]; x -> y [label=\"\\\n\x1b[2J<img src=x>#quot;&`"
	if got := dotText(evil); strings.Count(strings.NewReplacer(`\\`, "", `\"`, "").Replace(got), `"`) != 2 || strings.ContainsAny(got, "\n\x1b") {
		t.Errorf("for Graphviz it is %s", got)
	}
	if got := mermaidText(evil); strings.ContainsAny(got, "\"<>&`\n\x1b") {
		t.Errorf("for Mermaid it is %s", got)
	}
}

func TestRealDir(t *testing.T) {
	dir := t.TempDir()
	real, err := filepath.EvalSymlinks(dir)
	must(t, err)
	if got, err := RealDir(new(hostpath.Guard), dir+"/."); err != nil || got != real {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{filepath.Join(dir, "none"), "/dev/null"} {
		if got, err := RealDir(new(hostpath.Guard), bad); err == nil {
			t.Errorf("%s is the project %s", bad, got)
		}
	}
}
