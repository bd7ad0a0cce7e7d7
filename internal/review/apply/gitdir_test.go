package apply

import (
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/review"
)

// TestRepositoryOfAnyName checks that git's directory is recognized by its contents on either
// side, and not by its name. Files with the same names elsewhere have no flags.
func TestRepositoryOfAnyName(t *testing.T) {
	p := fresh(t, map[string]string{
		".bare/HEAD": "ref: refs/heads/main\n", ".bare/objects/ab/x": "1\n", ".bare/config": "[core]\n", ".bare/refs/heads/main": "1\n", ".bare/hooks/update": "1\n",
		"common/objects/ab/x": "1\n", "common/refs/heads/main": "1\n", "own/HEAD": "1\n", "own/commondir": "../common\n",
		"swap/HEAD": "1\n", "swap/objects/x": "1\n", "half/objects/x": "1\n", "gone/HEAD": "1\n", "gone/objects/x": "1\n", "gone/config": "1\n",
		"app/config": "1\n", "app/hooks/use.ts": "1\n", "app/objects/x": "1\n", "other/HEAD": "1\n",
	})
	p.inside(`for d in .bare common own app half; do mkdir -p $d/hooks $d/info $d/worktrees/x $d/objects/info
			echo 2 >$d/config; echo 2 >$d/hooks/update; echo 2 >$d/info/attributes; echo 2 >$d/worktrees/x/gitdir
			echo 2 >$d/config.worktree; echo 2 >$d/objects/info/alternates; echo 2 >$d/objects/y; echo 2 >$d/notes; done
		echo 2 >half/HEAD; rm -r swap gone; ln -s other swap; rm -r .bare/refs; ln -s app .bare/refs; echo 2 >other/notes`)
	var got []string
	for _, c := range p.changes() {
		if len(c.Flags) > 0 && !c.Implied {
			got = append(got, c.Path)
		}
	}
	want := []string{"gone/config", "half/HEAD", "swap", ".bare/refs"}
	for _, d := range []string{".bare", "common", "own", "half"} {
		for _, name := range []string{"config", "hooks/update", "info/attributes", "worktrees/x/gitdir", "config.worktree", "objects/info/alternates"} {
			want = append(want, d+"/"+name)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("flagged are\n%q, want\n%q", got, want)
	}
}

// TestSettleBesideRepository checks that a directory that hides the host's, and contains a
// repository, does not prevent a start after something in it was applied.
func TestSettleBesideRepository(t *testing.T) {
	p := fresh(t, map[string]string{"dep/y": "1\n"})
	p.inside("rm -r dep; mkdir -p dep/.git/objects; echo > dep/.git/HEAD; echo > dep/x")
	var orders []review.Change
	for _, c := range p.changes() {
		if c.Path == "dep/x" || c.Path == "dep/y" {
			orders = append(orders, c)
		}
	}
	p.apply(orders, false)
	p.start()
	if got := p.inside("cat dep/x dep/.git/HEAD"); got != "\n\n" {
		t.Errorf("inside there is %q", got)
	}
}
