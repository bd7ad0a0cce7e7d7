package rootfs

import (
	"testing"
	"time"
)

// TestChosenWithBuilds checks that items that only builds keep are removed after these builds, and
// stay if one of them stays.
func TestChosenWithBuilds(t *testing.T) {
	remove := func() error { return nil }
	old := time.Unix(1, 0)
	d := Usage{Items: []Item{
		{Kind: KindLeftover, Name: "base", Bytes: 9, Used: old, Kept: "builds", above: []string{"a", "b"}, Erase: remove},
		{Kind: KindLeftover, Name: "used", Bytes: 9, Used: old, Kept: "a sandbox", Erase: remove},
		{Kind: KindBuild, Name: "step a", Bytes: 1, Used: old, build: "a", Erase: remove},
		{Kind: KindBuild, Name: "step b", Bytes: 2, Used: time.Unix(9, 0), build: "b", Erase: remove},
		{Kind: KindBuild, Name: "a cache", Bytes: 3, Used: old, Erase: remove},
	}}
	for _, c := range []struct {
		what string
		p    Pruning
		want string
	}{
		{"all", Pruning{Kinds: []string{KindBuild, KindLeftover}}, "a cache, step b, step a, base"},
		{"one of the builds stays", Pruning{Kinds: []string{KindBuild, KindLeftover}, Before: time.Unix(5, 0)}, "a cache, step a"},
		{"builds alone", Pruning{Kinds: []string{KindBuild}}, "a cache, step b, step a"},
		{"leftovers alone", Pruning{Kinds: []string{KindLeftover}}, ""},
	} {
		got := ""
		for i, it := range d.Chosen(c.p) {
			if i > 0 {
				got += ", "
			}
			got += it.Name
			if it.Kept != "" {
				t.Errorf("%s: %s is shown as kept: %s", c.what, it.Name, it.Kept)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", c.what, got, c.want)
		}
	}
}
