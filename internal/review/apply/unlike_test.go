package apply

import (
	"slices"
	"testing"
)

// TestUnlike checks that a file that is the same in the layer and on the host is not a change, however
// it got there.
func TestUnlike(t *testing.T) {
	p := fresh(t, map[string]string{
		"touched": "1\n", "again": "1\n", "mode": "1\n", "text": "1\n", "d/f": "1\n", "d/g": "1\n", "gone": "1\n", "anew/f": "1\n", "less/f": "1\n", "less/g": "1\n", "kind": "1\n",
	})
	p.inside(`touch touched; cp again a; mv a again; chmod 755 mode; echo 2 >text; echo 2 >d/f; touch d/g; rm gone; touch new; rm new
mkdir made; echo 1 >made/f; ln -s d l; rm kind; mkdir kind
rm -r anew; mkdir anew; echo 1 >anew/f; rm -r less; mkdir less; echo 1 >less/f`)
	paths := []string{"touched", "again", "mode", "text", "d", "d/f", "d/g", "gone", "new", "made", "made/f", "l", "kind", "anew", "anew/f", "less", "less/f"}
	got, err := p.w.Unlike(paths)
	must(t, err)
	if want := []string{"mode", "text", "d/f", "gone", "new", "made", "made/f", "l", "kind", "less"}; !slices.Equal(got, want) {
		t.Errorf("other are\n%q, want\n%q", got, want)
	}
}
