package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLoginFiles checks that our descriptions write login files plainly, so that
// plainLogins finds all of them.
func TestLoginFiles(t *testing.T) {
	c := NewCatalog("")
	names, err := c.Names()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range names {
		a, err := c.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		text, _, err := c.Text(name)
		if got := plainLogins(string(text)); err != nil || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(loginsOf(a)))) {
			t.Errorf("%s: %q, and not %q; %v", name, got, loginsOf(a), err)
		}
		want = append(want, loginsOf(a)...)
	}
	slices.Sort(want)
	got, err := c.LoginFiles()
	if err != nil || !slices.Equal(got, slices.Compact(want)) || !slices.Contains(got, ".codex/auth.json") || !slices.Contains(got, ".gemini/oauth_creds.json") {
		t.Errorf("%q, and not %q; %v", got, want, err)
	}
}

// TestLoginFilesOfUser checks that the user's descriptions count in addition to ours, including one that
// replaces ours. A description that cannot be read is not skipped.
func TestLoginFilesOfUser(t *testing.T) {
	dir := t.TempDir()
	c := NewCatalog(dir)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("mine.yaml", "version: 1\nname: mine\ntitle: Mine\nprogram: mine\nlogins:\n  - .mine/token.json\n")
	write("codex.yaml", "version: 1\nname: codex\ntitle: Codex\nprogram: codex\n")
	write("notes.txt", "none")
	got, err := c.LoginFiles()
	for _, file := range []string{".mine/token.json", ".codex/auth.json", ".claude/.credentials.json"} {
		if err != nil || !slices.Contains(got, file) {
			t.Errorf("%s is not in %q, %v", file, got, err)
		}
	}
	write("odd.yaml", "version: 1\nname: [")
	if got, err := c.LoginFiles(); err == nil || !strings.Contains(err.Error(), "odd.yaml") {
		t.Errorf("%q, %v", got, err)
	}
}
