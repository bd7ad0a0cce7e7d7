package engine

import (
	"testing"
	"time"
)

// What only builds keep goes with them, and after them; not if one of them stays.
func TestChosenWithBuilds(t *testing.T) {
	remove := func() error { return nil }
	old := time.Unix(1, 0)
	d := Disk{Items: []DiskItem{
		{Kind: DiskLeftover, Name: "base", Bytes: 9, Used: old, Kept: "builds", above: []string{"a", "b"}, remove: remove},
		{Kind: DiskLeftover, Name: "used", Bytes: 9, Used: old, Kept: "a sandbox", remove: remove},
		{Kind: DiskBuild, Name: "step a", Bytes: 1, Used: old, build: "a", remove: remove},
		{Kind: DiskBuild, Name: "step b", Bytes: 2, Used: time.Unix(9, 0), build: "b", remove: remove},
		{Kind: DiskBuild, Name: "a cache", Bytes: 3, Used: old, remove: remove},
	}}
	for _, c := range []struct {
		what string
		p    Pruning
		want string
	}{
		{"all", Pruning{Kinds: []string{DiskBuild, DiskLeftover}}, "a cache, step b, step a, base"},
		{"one of the builds stays", Pruning{Kinds: []string{DiskBuild, DiskLeftover}, Before: time.Unix(5, 0)}, "a cache, step a"},
		{"builds alone", Pruning{Kinds: []string{DiskBuild}}, "a cache, step b, step a"},
		{"leftovers alone", Pruning{Kinds: []string{DiskLeftover}}, ""},
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
