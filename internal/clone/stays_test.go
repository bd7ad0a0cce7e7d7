package clone

import (
	"fmt"
	"strings"
	"testing"
)

// TestPathSet checks which paths of git status belong to the sandbox's own.
func TestPathSet(t *testing.T) {
	own := newPathSet([]string{"a.txt", "new/deep/file", "gone"})
	for path, want := range map[string]bool{
		"a.txt": true, "new/": true, "new/deep/": true, "new/deep/file": true, "gone/x": true, "gone": true,
		"b.txt": false, "a.txt.old": false, "ne/": false, "new/other": false, "": false, "/": false,
	} {
		if got := own.touches(path); got != want {
			t.Errorf("%q: %t", path, got)
		}
	}
	long := strings.Repeat("d/", maxPath)
	if !own.touches(long) {
		t.Error("a path that is too long to look up is left out")
	}
	if !newPathSet([]string{long + "f"}).touches("x") {
		t.Error("with a path that is too long to look up, others are left out")
	}
}

// TestManyPaths looks up many paths among many: one comparison for each pair would take hours.
func TestManyPaths(t *testing.T) {
	list := make([]string, 300_000)
	for i := range list {
		list[i] = fmt.Sprintf("a/b/%d/c", i)
	}
	own := newPathSet(list)
	for i := range list {
		if !own.touches(list[i]+"/new") || own.touches(list[i]+"d") {
			t.Fatal(list[i])
		}
	}
}
