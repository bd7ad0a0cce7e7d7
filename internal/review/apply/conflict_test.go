package apply

import (
	"os"
	"testing"
)

// TestDeletedDirectoryReplaced checks that files that the host moved into the place of a
// directory that the sandbox deleted count as unseen by the sandbox.
func TestDeletedDirectoryReplaced(t *testing.T) {
	p := fresh(t, map[string]string{"gone/a": "1\n", "made/sub/a": "1\n", "other/b": "precious\n", "another/b": "precious\n"})
	p.inside("rm -r gone made; mkdir made")
	must(t, os.RemoveAll(p.path("gone")))
	must(t, os.Rename(p.path("other"), p.path("gone")))
	must(t, os.RemoveAll(p.path("made/sub")))
	must(t, os.Rename(p.path("another"), p.path("made/sub")))
	list := p.wants("\ndeleted gone/b CONFLICT\ndeleted made/sub/b CONFLICT\n")
	p.apply(list, true)
	for _, name := range []string{"gone/b", "made/sub/b"} {
		if now := p.get(name); now != "precious\n" {
			t.Errorf("%s is %q", name, now)
		}
	}
}
