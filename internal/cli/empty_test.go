package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/spec"
)

// called runs a line of words in this process, with an empty state directory, and returns its
// output.
func called(t *testing.T, words ...string) (string, error) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer out.Close()
	a := newApp(&console.Console{In: os.Stdin, Out: out, Err: out, Command: "bothy"})
	err = a.Execute(context.Background(), a.rootCommand(words), words)
	text, rerr := os.ReadFile(out.Name())
	must(t, rerr)
	return string(text), err
}

// aside gives a test directories of its own.
func aside(t *testing.T) {
	t.Helper()
	t.Setenv("BOTHY_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Chdir(t.TempDir())
}

// TestEmpty checks that an empty word, such as an unset variable of a script, is refused. Otherwise
// a command might do more than the user asked for.
func TestEmpty(t *testing.T) {
	aside(t)
	_, err := called(t, "create", "--name", "rr", "--workspace", spec.WorkspaceReview, "shell", ".")
	must(t, err)
	for _, words := range [][]string{
		{"diff", "rr", ""},
		{"discard", "-f", "rr", ""},
		{"apply", "rr", ""},
		{"apply", "xx", "--patch", "", "b.txt"},
		{"apply", "xx", "--match="},
		{"apply", "xx", "--overwrite", "a", "--overwrite", ""},
		{"checkpoint", "restore", "--to", "", "xx", "c1"},
		{"checkpoint", "restore", "--to", "cc", "--discard", "xx", "c1"},
		{"checkpoint", "restore", "--to", "cc", "--no-workspace", "xx", "c1"},
		{"checkpoint", "show", "--since", "", "xx", "c1"},
		{"fork", "--checkpoint", "", "xx"},
		{"fork", "--name", "", "xx"},
		{"diff", "--against", "", "xx"},
		{"fetch", "--in", "", "xx"},
		{"prune", "--filter", ""},
		{"create", "-t", "", "shell"},
		{"run", "--mock", "", "shell"},
		{"run", "--name", "", "shell"},
		{"exec", "-u", "", "xx", "true"},
		{"save", "-o", "", "xx", "tools"},
		{"template", "load", ""},
		{"cp", "xx:/etc/hostname", ""},
		{"logs", "--agent", "--session", "", "xx"},
		{"policy", "allow", "--sandbox", "", "a.example"},
		{"secret", "revoke", "--sandbox", "", "ci"},
		{"secret", "set", "--file", "", "ci"},
		{"task", "close", "--reason", "", "bd-a"},
		{"task", "add", "--parent", "", "title"},
		{"loop", "run", "--agent", "", "--until", "true", "x"},
		{"loop", "rm", ""},
		{"loop", "rm", "--", ""},
		{"loop", "stop", ""},
		{"loop", "hint", "", "text"},
		{"flow", "rm", ""},
		{"flow", "approve", "xx", ""},
		{"flow", "answer", "", "yes"},
		{"exec", "", "true"},
		{"run", "", "--", "true"},
		{"checkpoint", "auto", "rr", ""},
		{"task", "dep", "rm", "bd-a", ""},
		{"task", "graph", ""},
		{"flow", "approve", "--reject", ""},
		{"ralph", "--remove-task", ""},
	} {
		out, err := called(t, words...)
		if !errors.Is(err, spec.ErrUsage) || !strings.HasSuffix(err.Error(), "empty") && !strings.HasSuffix(err.Error(), "do not go with it") || out != "" {
			t.Errorf("%q: %v, printed %q", words, err, out)
		}
	}
}

// TestEmptyMeant checks flags for which an empty value has a meaning.
func TestEmptyMeant(t *testing.T) {
	aside(t)
	for _, words := range [][]string{
		{"task", "update", "--description", "", "--assignee", "", "--parent", "", "--due", "", "--spec-id", "", "bd-a"},
		{"secret", "lease", "--sandbox", "xx", "--basic", "", "--env", "", "ci"},
		{"loop", "run", "--model", "", "--abort-promise", "", "x"},
		{"run", "none", "--", "true", ""},
		{"exec", "xx", "true", ""},
		{"ralph", "--model", "", "--abort-promise", "", "x"},
	} {
		if _, err := called(t, words...); err == nil || strings.Contains(err.Error(), "empty") {
			t.Errorf("%q: %v", words, err)
		}
	}
}
