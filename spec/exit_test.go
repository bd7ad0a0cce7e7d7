package spec

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestExitCodesMeanOneThing checks that each exit code means one thing, and each thing has one
// code. Stopping alone shares one: it is a conflict that passes.
func TestExitCodesMeanOneThing(t *testing.T) {
	names, codes := map[string]bool{}, map[int]string{}
	for _, x := range Exits() {
		if names[x.Name] {
			t.Errorf("%s stands twice in the table", x.Name)
		}
		names[x.Name] = true
		if other, taken := codes[x.Code]; taken && (!errors.Is(x.Class(), ErrStopping) || !errors.Is(ClassOf(x.Code), ErrConflict)) {
			t.Errorf("%d is %s and %s", x.Code, other, x.Name)
		}
		codes[x.Code] = x.Name
		if x.Code >= ExitSignal {
			t.Errorf("%d, %s, is that of a signal", x.Code, x.Name)
		}
	}
}

// TestEndsOfRunsAreNoErrors checks that the outcome of a run is not a class of errors: a script
// must not mistake one for the other.
func TestEndsOfRunsAreNoErrors(t *testing.T) {
	for code := ExitAborted; code <= ExitCancelled; code++ {
		if class := ClassOf(code); class != nil {
			t.Errorf("%d is the class %v", code, class)
		}
	}
}

// TestExitCodesAreDocumented checks that docs/reference/exit-codes.md lists exactly the exit codes that
// exist.
func TestExitCodesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	section := string(text)
	listed := map[int]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9, ]+) \|`).FindAllStringSubmatch(section, -1) {
		for cell := range strings.SplitSeq(row[1], ", ") {
			code, err := strconv.Atoi(cell)
			if err != nil || listed[code] {
				t.Errorf("the row of %q: %v, or it is listed twice", row[1], err)
			}
			listed[code] = true
		}
	}
	have := map[int]bool{}
	for _, x := range Exits() {
		have[x.Code] = true
		if x.Class() != nil && !strings.Contains(section, x.Name) {
			t.Errorf("the class %s is not named", x.Name)
		}
	}
	if !maps.Equal(listed, have) {
		t.Errorf("listed are %v, there are %v", slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(have)))
	}
}
