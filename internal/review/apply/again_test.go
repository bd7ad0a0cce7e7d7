package apply

import (
	"os"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/review"
)

// TestDeletedAndMadeAgain checks that a file that the sandbox made again while apply waited is
// neither deleted on the host nor lost in the sandbox.
func TestDeletedAndMadeAgain(t *testing.T) {
	p := fresh(t, map[string]string{"file": "1\n", "dir/x": "1\n"})
	p.inside("rm -r file dir")
	list := p.changes()
	p.inside("echo newer > file; mkdir dir; echo newer > dir/x")
	got := p.apply(list, true)
	if got["file"] != Conflicts || got["dir/x"] != Conflicts || p.get("file") != "1\n" || p.get("dir/x") != "1\n" {
		t.Errorf("%v", got)
	}
	p.wants("\nmodified dir/x\nmodified file\n")
}

// TestAppliedMeanwhile checks that the second of two concurrent applies has nothing to do, and
// says so.
func TestAppliedMeanwhile(t *testing.T) {
	for _, settled := range []bool{false, true} {
		p := fresh(t, map[string]string{"gone": "1\n", "dir/x": "1\n", "tofile/x": "1\n", "todir": "1\n", "tolink": "1\n", "mode/x": "1\n", "both": "1\n", "file": "1\n"})
		p.inside(`rm -r gone dir tofile todir tolink; mkdir todir empty; echo 2 > todir/x; echo 2 > tofile; ln -s file tolink
			chmod 700 mode; chmod 755 both; echo 2 > file; echo 2 > new; mkdir made; echo 2 > made/x`)
		list := p.changes()
		for round := range 2 {
			for path, r := range p.apply(list, settled) {
				if r != Applied {
					t.Errorf("settled %t, round %d: %s: %s", settled, round, path, r)
				}
			}
		}
		p.wants("\n")
		// A later write of the host is the host's own.
		pause()
		p.put("file", "host\n")
		p.put("gone", "host\n")
		got := p.apply(list, settled)
		if got["file"] != Conflicts || got["gone"] == Applied || p.get("file") != "host\n" || p.get("gone") != "host\n" {
			t.Errorf("settled %t: after the host changed it: %v", settled, got)
		}
	}
}

// TestDiscardedMeanwhile checks that apply leaves out a change of any kind that was discarded
// while apply waited.
func TestDiscardedMeanwhile(t *testing.T) {
	p := fresh(t, map[string]string{"gone": "1\n", "dir/x": "1\n", "made/x": "1\n", "tofile/x": "1\n", "tolink": "1\n", "mode/x": "1\n", "part/x": "1\n", "part/y": "1\n"})
	must(t, os.Mkdir(p.path("hollow"), 0o755))
	pause()
	must(t, os.RemoveAll(p.w.Layer.RecordFile()))
	p.start()
	const host = "find . -printf '%p %y %m %l\\n' | sort"
	was := p.here(host)
	p.inside(`rm -r gone dir made tofile tolink hollow part/x; mkdir made empty; echo 2 > made/new; echo 2 > tofile; echo 2 > hollow
		ln -s gone tolink; ln -s gone link; chmod 700 mode; mkdir new; echo 2 > new/file`)
	list := p.changes()
	must(t, DiscardAll(p.w))
	for path, r := range p.apply(list, true) {
		if want := map[bool]Result{false: Conflicts, true: Left}[path == "tofile/x"]; r != want { // it goes with tofile
			t.Errorf("%s: %s", path, r)
		}
	}
	if now := p.here(host); now != was {
		t.Errorf("the host has\n%swant\n%s", now, was)
	}
}

// TestModeChangedMeanwhile checks that a directory of the host's whose mode changed, or that was
// replaced by another, keeps its mode.
func TestModeChangedMeanwhile(t *testing.T) {
	p := fresh(t, map[string]string{"mode/x": "1\n", "swap/x": "1\n"})
	p.inside("chmod 700 mode swap")
	list := p.changes()
	must(t, os.Chmod(p.path("mode"), 0o750))
	must(t, os.Rename(p.path("swap"), p.path("aside")))
	must(t, os.Mkdir(p.path("swap"), 0o755))
	for path, r := range p.apply(list, true) {
		if r != Conflicts {
			t.Errorf("%s: %s", path, r)
		}
	}
	for name, want := range map[string]os.FileMode{"mode": 0o750, "swap": 0o755} {
		if st, err := os.Lstat(p.path(name)); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
}

// TestDirectoryDeletedWhileMounted checks that the record has a deletion that was applied last,
// of a directory.
func TestDirectoryDeletedWhileMounted(t *testing.T) {
	p := fresh(t, map[string]string{"dir/y": "1\n"})
	must(t, os.Remove(p.path("dir/y")))
	pause()
	must(t, os.RemoveAll(p.w.Layer.RecordFile()))
	p.start()
	pause()
	p.inside("rmdir dir")
	p.apply(p.changes(), false)
	p.put("dir/x", "host\n")
	p.wants("\n")
	p.start()
	if got := p.inside("cat dir/x"); got != "host\n" {
		t.Errorf("inside there is %q", got)
	}
}

// TestApplyPartOfDeleted checks that a part of a deleted directory can be applied.
func TestApplyPartOfDeleted(t *testing.T) {
	p := fresh(t, map[string]string{"dir/x": "1\n", "dir/y": "1\n", "made/x": "1\n", "made/y": "1\n"})
	p.inside("rm -r dir made; mkdir made empty")
	part := func(paths ...string) {
		t.Helper()
		s, _, err := p.w.Select(paths, true)
		must(t, err)
		list, _ := s.Pick(p.changes())
		for path, r := range p.apply(list, true) {
			if r != Applied {
				t.Errorf("%s: %s", path, r)
			}
		}
	}
	part("dir/x", "made/x")
	p.wants("\ndeleted dir/y\nadded empty\ndeleted made/y\n")
	part()
	p.wants("\n")
	if left := p.here("ls -A ../layer/up"); left != "" {
		t.Errorf("the layer has %s", left)
	}
}

// TestDirectoryThatCannotBeEntered checks that a directory that can be listed but not entered is
// one change that cannot be applied, and does not stop the others.
func TestDirectoryThatCannotBeEntered(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root enters all of them")
	}
	p := fresh(t, nil)
	p.inside("mkdir shut; echo 1 > shut/x; chmod 644 shut; echo 1 > fine")
	list := p.wants("\nadded fine\nadded shut REFUSED\n")
	got := p.apply(list, true)
	if got["fine"] != Applied || got["shut"] != Failed {
		t.Errorf("%v", got)
	}
	if _, err := Discard(p.w, p.changes()); err != nil {
		t.Error(err)
	}
	p.wants("\n")
}

// TestDiscardAll checks that DiscardAll discards everything without a list.
func TestDiscardAll(t *testing.T) {
	p := fresh(t, map[string]string{"made/x": "1\n", "a": "1\n"})
	p.inside("rm -r made; mkdir made; echo 2 > a; echo 2 > new")
	must(t, DiscardAll(p.w))
	if left := p.here("ls -A ../layer/up"); left != "" {
		t.Errorf("the layer has %s", left)
	}
	if got := p.inside("cat a made/x"); got != "1\n1\n" {
		t.Errorf("inside there is %q", got)
	}
}

// TestDiscardDirectories checks that a discard restores modes, and directories that the sandbox
// removed, with their contents.
func TestDiscardDirectories(t *testing.T) {
	p := fresh(t, map[string]string{"dir/x": "1\n", "made/x": "1\n", "made/y": "1\n", "kept": "1\n"})
	p.inside("echo 2 > kept; mkdir -p new/sub empty; echo 1 > new/sub/x; chmod 700 dir; rm -r made; mkdir made; echo 2 > made/new")
	list := p.changes()
	var some []review.Change
	for _, c := range list {
		if c.Path != "kept" && c.Path != "made/x" && c.Path != "made/y" {
			some = append(some, c)
		}
	}
	done, err := Discard(p.w, some)
	must(t, err)
	for _, o := range done {
		if o.Result != Discarded {
			t.Errorf("%s %s: %s", o.Result, o.Path, o.Why)
		}
	}
	p.wants("\nmodified kept\ndeleted made/x\ndeleted made/y\n")
	if got := p.inside("stat -c %a dir; ls; ls made"); got != "755\ndir\nkept\nmade\n" {
		t.Errorf("inside there is %q", got)
	}
}

// TestMadeAgainAfterApply checks that the sandbox can make a path again that it deleted and an
// apply deleted on the host, even if another change waits in the layer.
func TestMadeAgainAfterApply(t *testing.T) {
	for name, settled := range map[string]bool{"stopped": true, "running": false} {
		t.Run(name, func(t *testing.T) {
			p := fresh(t, map[string]string{"gen": "1\n", "dir/a": "1\n", "dir/b": "1\n", "part/a": "1\n", "part/b": "1\n", "waits": "1\n"})
			p.inside("rm -r gen dir part/a; echo 2 > waits")
			list := p.changes()
			p.apply(slices.DeleteFunc(list, func(c review.Change) bool { return c.Path == "waits" }), settled)
			p.wants("\nmodified waits\n")
			p.start()
			p.start()
			p.inside("echo 2 > gen; mkdir dir; echo 2 > dir/a; echo 2 > part/a")
			list = p.wants("\nadded dir/a\nadded gen\nadded part/a\nmodified waits\n")
			p.apply(list, true)
			for _, file := range []string{"gen", "dir/a", "part/a", "waits"} {
				if now := p.get(file); now != "2\n" {
					t.Errorf("%s is %q", file, now)
				}
			}
		})
	}
}

// TestMadeOnTheHostAfterApply checks that a file that the host makes after an applied deletion is
// the host's.
func TestMadeOnTheHostAfterApply(t *testing.T) {
	p := fresh(t, map[string]string{"gen": "1\n", "dir/a": "1\n", "waits": "1\n"})
	p.inside("rm -r gen dir; echo 2 > waits")
	list := p.changes()
	p.apply(slices.DeleteFunc(list, func(c review.Change) bool { return c.Path == "waits" }), true)
	p.start()
	pause()
	p.put("gen", "host\n")
	p.put("dir/a", "host\n")
	p.inside("echo 2 > gen; rm -r dir")
	p.wants("\ndeleted dir/a CONFLICT\nmodified gen CONFLICT\nmodified waits\n")
}

// TestDeletedOnTheHostAfterApply checks that a file which the host created after an apply, and
// deleted again, does not come back because the sandbox changed it. A file that the sandbox moved
// there is not such a file.
func TestDeletedOnTheHostAfterApply(t *testing.T) {
	p := fresh(t, map[string]string{"gen": "1\n", "dir/a": "1\n", "to": "1\n", "from": told("from"), "waits": "1\n"})
	p.inside("rm -r gen dir to; echo 2 > waits")
	list := p.changes()
	p.apply(slices.DeleteFunc(list, func(c review.Change) bool { return c.Path == "waits" }), true)
	p.start()
	p.put("gen", "host\n")
	p.put("dir/a", "host\n")
	p.inside("echo 2 >> gen; echo 2 >> dir/a; mv from to; echo 2 >> to")
	must(t, os.Remove(p.path("gen")))
	must(t, os.RemoveAll(p.path("dir")))
	list = p.wants("\nadded dir/a CONFLICT\ndeleted from\nadded gen CONFLICT\nadded to\nmodified waits\n")
	_, err := Discard(p.w, slices.DeleteFunc(list, func(c review.Change) bool { return c.Path != "from" }))
	must(t, err)
	p.start()
	p.wants("\nadded dir/a CONFLICT\nadded gen CONFLICT\nadded to\nmodified waits\n")
}
