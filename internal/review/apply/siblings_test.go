package apply

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/record"
)

// TestSiblings checks that a change between two sandboxes has the flags of an apply of the
// second, and that git's own files are recognized.
func TestSiblings(t *testing.T) {
	p := fresh(t, map[string]string{".git/index": "1\n", ".git/HEAD": "1\n", "Makefile": "1\n", "b.mk": "1\n", "run.sh": "1\n", "same": "1\n"})
	other := &project{t, review.Workspace{Source: p.w.Source, Layer: record.Layer{Dir: filepath.Join(t.TempDir(), "layer")}}}
	must(t, os.Mkdir(other.w.Layer.Dir, 0o755))
	other.start()
	p.inside("echo a >.git/index; echo a >.git/HEAD; echo a >Makefile; echo a >run.sh; echo a >only; echo a >same")
	other.inside("echo b >.git/HEAD; echo b >Makefile; echo b >b.mk; echo a >same; echo b >text")
	s, err := p.w.Against(other.w)
	must(t, err)
	defer s.Close()
	list, err := s.Changes()
	must(t, err)
	got := map[string]string{}
	for _, c := range list {
		switch {
		case c.Kept():
			got[c.Path] = "kept"
		case len(c.Flags) > 0:
			got[c.Path] = "flagged"
		default:
			got[c.Path] = "plain"
		}
	}
	want := map[string]string{".git/index": "kept", ".git/HEAD": "kept", "Makefile": "flagged", "b.mk": "flagged", "run.sh": "plain", "only": "plain", "text": "plain"}
	for path := range want {
		if got[path] != want[path] {
			t.Errorf("%s is %q, want %q", path, got[path], want[path])
		}
	}
	if len(got) != len(want) {
		t.Errorf("there is %v", got)
	}
}
