package apply

import (
	"maps"
	"os"
	"regexp"
	"testing"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/patch"
)

// foreseen returns Foresee's results, in the form in which order returns Apply's; "some hunks"
// count as hunks.
func (p *project) foreseen(orders []Order) map[string]Result {
	p.t.Helper()
	list, err := Foresee(p.w, orders)
	must(p.t, err)
	got := map[string]Result{}
	for _, o := range list {
		got[o.Path] = o.Result
	}
	return got
}

// TestWhatStaysInDeleted checks that a deleted directory stays, without a conflict, if something
// that was known to be in it is left. It is in conflict if something new is in it.
func TestWhatStaysInDeleted(t *testing.T) {
	p := fresh(t, map[string]string{"d/lock": "1\n", "d/x": "1\n", "d/sub/lock": "1\n", "new/x": "1\n", "file/lock": "1\n", "file/x": "1\n", "mode/lock": "1\n"})
	p.inside("rm -r d new file mode/lock; echo 2 > file; chmod 700 mode")
	var orders []Order
	for _, c := range p.changes() {
		if c.Path != "d/lock" && c.Path != "d/sub/lock" && c.Path != "file/lock" && c.Path != "mode/lock" {
			orders = append(orders, Order{Change: c})
		}
	}
	would := p.foreseen(orders)
	want := map[string]Result{"d": "", "d/sub": "", "d/x": Applied, "new": Applied, "new/x": Applied, "file": Failed, "file/x": Left, "mode": Applied}
	if !maps.Equal(would, want) {
		t.Errorf("foreseen is %v", would)
	}
	p.put("new/mine", "host\n")
	want["new"] = Conflicts
	if got := p.order(orders, true); !maps.Equal(got, want) {
		t.Errorf("it came to %v", got)
	}
	for _, name := range []string{"d/lock", "d/sub/lock", "file/lock", "mode/lock"} {
		if p.get(name) != "1\n" {
			t.Errorf("%s is %q", name, p.get(name))
		}
	}
}

// TestPickTakesTextsAlone checks that an apply of picked hunks brings and removes only texts, and
// makes no parent for a text without a wanted hunk.
func TestPickTakesTextsAlone(t *testing.T) {
	p := fresh(t, map[string]string{"a": "1\n", "gone/x": "1\n", "mode/x": "1\n", "typed": "1\n"})
	must(t, os.Mkdir(p.path("hollow"), 0o755))
	must(t, os.Symlink("a", p.path("link")))
	pause()
	must(t, os.RemoveAll(p.w.Layer.RecordFile()))
	p.start()
	p.inside(`mkdir empty; rmdir hollow; echo that > hollow; rm -r gone typed; mkdir typed; echo other > typed/x
		chmod 700 mode; ln -sfn that link; ln -s that made; mkdir new; echo other > new/file; echo that > a; mkdir some; echo that > some/file; : > void`)
	const host = "find . ! -path './some*' ! -name a -printf '%p %y %m %l\\n' | sort"
	re, err := patch.Compile("^that$")
	must(t, err)
	var orders []Order
	want := map[string]Result{}
	for _, c := range p.changes() {
		orders = append(orders, Order{Change: c, Pick: patch.Matching(re)})
		want[c.Path] = Unmatched
	}
	want["a"], want["some/file"] = Applied, Applied
	if len(want) != 15 {
		t.Fatalf("the changes are %v", want)
	}
	was := p.here(host)
	if would := p.foreseen(orders); !maps.Equal(would, want) {
		t.Errorf("foreseen is %v", would)
	}
	if now := p.here("find . | sort"); now != p.here("find . ! -path './some*' | sort") {
		t.Errorf("foreseen, the host has\n%s", now)
	}
	if got := p.order(orders, true); !maps.Equal(got, want) {
		t.Errorf("it came to %v", got)
	}
	if now := p.here(host); now != was || p.get("a") != "that\n" || p.get("some/file") != "that\n" {
		t.Errorf("the host has\n%sit had\n%s", now, was)
	}
}

// TestForeseeInTheWay checks that the contents of a directory that replaces a file come with the
// directory, or not at all.
func TestForeseeInTheWay(t *testing.T) {
	for name, tt := range map[string]struct {
		pick patch.Pick
		with bool // the directory
		want Result
	}{
		"all of it":        {nil, true, Applied},
		"not with it":      {nil, false, Failed},
		"some of the text": {patch.Matching(regexp.MustCompile("TODO")), true, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			p := fresh(t, map[string]string{"file": "TODO\n", "link": "TODO\n"})
			p.inside("rm file link; mkdir -p file/sub link; echo TODO >file/a; echo TODO >file/sub/b; echo TODO >link/c; echo TODO >beside")
			must(t, os.Remove(p.path("link")))
			must(t, os.Symlink("file", p.path("link")))
			var orders []Order
			for _, c := range p.changes() {
				if tt.with || c.Kind != review.Type {
					orders = append(orders, Order{Change: c, Pick: tt.pick, Overwrite: true})
				}
			}
			foreseen := p.foreseen(orders)
			if got := p.order(orders, true); !maps.Equal(got, foreseen) {
				t.Errorf("foreseen is %v, and it is %v", foreseen, got)
			}
			for _, path := range []string{"file/a", "file/sub/b", "link/c"} {
				if foreseen[path] != tt.want {
					t.Errorf("%s is %s, want %s", path, foreseen[path], tt.want)
				}
			}
		})
	}
}

// TestPathOfMovedAlone checks that the origin of a moved file is removed only with the new file,
// or after it, whichever paths the user names.
func TestPathOfMovedAlone(t *testing.T) {
	for _, inside := range []string{"mv d/f Makefile", "mv d/f d/t; mkdir d/f; mv d/t other; echo new > d/f/x", "mv d/f .git/objects/f", "mv d/f d/name; echo more >> d/name"} {
		t.Run(inside, func(t *testing.T) {
			p := fresh(t, map[string]string{"d/f": "a file that is moved\nsomewhere\n", "d/g": "1\n", ".git/objects/x": "1\n"})
			p.inside(inside)
			chosen := func(args ...string) (orders []Order) {
				s, _, err := p.w.Select(args, true)
				must(t, err)
				list, _ := s.Pick(p.changes())
				for _, c := range list {
					orders = append(orders, Order{Change: c})
				}
				return orders
			}
			if would := p.foreseen(chosen("d/f")); would["d/f"] != Left {
				t.Errorf("foreseen is %v", would)
			}
			if got := p.order(chosen("d/f"), true); got["d/f"] != Left || p.get("d/f") != "a file that is moved\nsomewhere\n" {
				t.Errorf("it came to %v", got)
			}
			p.order(chosen("Makefile", "other", "d/name", ".git/objects"), true)
			if got := p.order(chosen("d/f"), true); got["d/f"] != Applied {
				t.Errorf("with what it became on the host it came to %v", got)
			}
		})
	}
}
