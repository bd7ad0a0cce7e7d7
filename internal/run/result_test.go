package run

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// ends are the states of runs that no process carries on.
var ends = []Status{Completed, Failed, Aborted, Waiting, Limited, Stalled, Cancelled}

// TestEndsAreDocumented checks that the docs of loops and flows list their exit codes.
func TestEndsAreDocumented(t *testing.T) {
	for file, want := range map[string]int{"../../docs/guide/loops.md": 8, "../../docs/guide/flow-runs.md": 6} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		status, seen := Status(""), map[Status]bool{}
		for _, row := range regexp.MustCompile("(?m)^\\| (?:`([a-z]+)` )?\\| ([0-9]+|128 \\+ n) \\|").FindAllStringSubmatch(string(text), -1) {
			partly := row[1] == "" // the row follows that of its status
			if !partly {
				status = Status(row[1])
			}
			code, signal := spec.ExitSignal+9, 9
			if row[2] != "128 + n" {
				if code, err = strconv.Atoi(row[2]); err != nil {
					t.Fatal(err)
				}
				signal = 0
			}
			if got := (&Result{Status: status, Signal: signal}).ExitCode(partly); got != code {
				t.Errorf("%s: %s (partly: %t) is %d there, and ends with %d", file, status, partly, code, got)
			}
			seen[status] = true
		}
		if len(seen) != want {
			t.Errorf("%s tells of %v alone", file, seen)
		}
		for _, status := range ends {
			if !seen[status] && (status != "stalled" && status != "aborted" || file == "../../docs/guide/loops.md") {
				t.Errorf("%s does not tell of %s", file, status)
			}
		}
	}
}

// TestEndsDiffer checks that no two ends have the same code, and that only a failure has the code of an
// error.
func TestEndsDiffer(t *testing.T) {
	seen := map[int]Status{(&Result{Status: Completed}).ExitCode(true): "completed, partly"}
	for _, status := range ends {
		code := (&Result{Status: status}).ExitCode(false)
		if other, taken := seen[code]; taken {
			t.Errorf("%s and %s end with %d", status, other, code)
		}
		seen[code] = status
		if class := spec.ClassOf(code); class != nil {
			t.Errorf("%s ends with %d, as an error of the class %v does", status, code, class)
		}
	}
	if (&Result{Status: "melted"}).ExitCode(false) != spec.ExitError {
		t.Error("an unknown status ends well")
	}
}
