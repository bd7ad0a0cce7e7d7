package cli

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/racetest"
)

// TestCompleteTasks checks that IDs of the selected project are completed, with titles that are safe
// to print.
func TestCompleteTasks(t *testing.T) {
	racetest.Skip(t)
	installed(t)
	project := t.TempDir()
	output(t, "bothy", "task", "add", "-C", project, "--id", "bd-one", "One \u202etwo")
	output(t, "bothy", "task", "add", "-C", project, "--id", "bd-done", "Done")
	output(t, "bothy", "task", "close", "-C", project, "bd-done")
	for _, tt := range []struct{ line, want string }{
		{"show|", "bd-one\tOne \\u202etwo :4"},
		{"show bd-one|", ":4"},
		{"close|bd", "bd-one\tOne \\u202etwo :4"},
		{"close bd-one|", ":4"},
		{"reopen|", "bd-done\tDone :4"},
		{"ls --parent|", "bd-one\tOne \\u202etwo :4"},
		{"update bd-one --status|c", "closed :4"},
		{"import|", ":0"},
	} {
		before, word, _ := strings.Cut(tt.line, "|")
		args := append([]string{"__complete", "task"}, strings.Fields(before)...)
		args = append(args[:3:3], append([]string{"-C", project}, args[3:]...)...)
		got := strings.ReplaceAll(strings.TrimSuffix(output(t, "bothy", append(args, word)...), "\n"), "\n", " ")
		if got != tt.want {
			t.Errorf("%q gives %q, not %q", tt.line, got, tt.want)
		}
	}
}
