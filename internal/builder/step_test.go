package builder

import (
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/build"
)

// TestInOrder checks that two builds lock caches in the same order, whatever the order in their
// Dockerfiles.
func TestInOrder(t *testing.T) {
	caches := []build.Cache{{ID: "x/b", Mount: 1}, {ID: "x/a", Mount: 2}, {ID: "x/b", Mount: 3}}
	want := []build.Cache{caches[1], caches[0], caches[2]}
	if got := inOrder(caches); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if caches[0].ID != "x/b" {
		t.Error("the plan was changed")
	}
}
