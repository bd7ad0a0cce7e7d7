package test

import (
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// notes are the commands in a user's notes: each has one line or more, and an empty line separates them.
type notes struct {
	list    []string
	run     []bool
	instead []string // of words that represent a name or a path
}

// notesKey is the key under which a script keeps them.
type notesKey struct{}

// cmdNotes is the script command notes. "notes read FILE [WORD INSTEAD]..." reads commands. Text that
// begins with # is a comment. "notes done" fails unless every one of them has been run.
func cmdNotes(ts *testscript.TestScript, neg bool, args []string) {
	n := ts.Value(notesKey{}).(*notes)
	switch {
	case !neg && len(args) >= 2 && len(args)%2 == 0 && args[0] == "read":
		n.instead = args[2:]
		for text := range strings.SplitSeq(ts.ReadFile(args[1]), "\n\n") {
			var lines []string
			for line := range strings.Lines(text) {
				if !strings.HasPrefix(line, "#") {
					lines = append(lines, line)
				}
			}
			if text := strings.TrimSpace(strings.Join(lines, "")); text != "" {
				n.list = append(n.list, text)
			}
		}
		n.run = make([]bool, len(n.list))
	case !neg && len(args) == 1 && args[0] == "done":
		for i, text := range n.list {
			if !n.run[i] {
				ts.Fatalf("not run: %s", text)
			}
		}
	default:
		ts.Fatalf("usage: notes read FILE [WORD INSTEAD]...; notes done")
	}
}

// cmdNote is the script command "note [-t] LINE [WORD INSTEAD]...". It runs the command that begins with
// that line, as a shell does; with -t one at the terminal that ttyin made.
func cmdNote(ts *testscript.TestScript, neg bool, args []string) {
	shell := ""
	if len(args) > 0 && args[0] == "-t" {
		shell, args = "exec > /dev/tty 2>&1\n", args[1:]
	}
	if len(args)%2 != 1 {
		ts.Fatalf("usage: note [-t] LINE [WORD INSTEAD]...")
	}
	n := ts.Value(notesKey{}).(*notes)
	i := slices.IndexFunc(n.list, func(text string) bool {
		first, _, _ := strings.Cut(text, "\n")
		return first == args[0]
	})
	if i < 0 {
		ts.Fatalf("not in the notes: %s", args[0])
	}
	n.run[i] = true
	words := strings.NewReplacer(slices.Concat(args[1:], n.instead)...)
	run(ts, neg, []string{"bash", "-c", shell + words.Replace(n.list[i])})
}
