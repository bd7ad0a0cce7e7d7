package clone

import "testing"

// TestIsAmong checks which paths of git status belong to the sandbox's own.
func TestIsAmong(t *testing.T) {
	own := []string{"a.txt", "new/deep/file", "gone"}
	for path, want := range map[string]bool{
		"a.txt": true, "new/": true, "new/deep/": true, "new/deep/file": true, "gone/x": true, "gone": true,
		"b.txt": false, "a.txt.old": false, "ne/": false, "new/other": false, "": false, "/": false,
	} {
		if got := isAmong(own, path); got != want {
			t.Errorf("%q: %t", path, got)
		}
	}
}
