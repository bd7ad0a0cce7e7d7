package apply

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/review"
)

// told returns the lines of a file that resembles no other.
func told(name string) string {
	var b strings.Builder
	for _, line := range []string{"one", "two", "three", "four"} {
		b.WriteString(name + " " + line + "\n")
	}
	return b.String()
}

func orphans(t *testing.T) *project {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"dir/edited", "dir/mode", "dir/old", "dir/same", "dir/linked", "dir/out", "emptied/x", "gone/edited", "whole/x"} {
		files[name] = told(name)
	}
	p := fresh(t, files)
	p.inside(`
		echo inside >> dir/edited; chmod 600 dir/mode; echo inside > dir/created
		mv dir/old dir/new; echo inside >> dir/new; mv dir/same dir/same2; ln dir/linked dir/link
		mkdir made; mv dir/out made/in; echo inside >> made/in
		rm emptied/x; echo inside >> gone/edited; echo inside > gone/created; chmod 700 whole
	`)
	pause()
	for _, name := range []string{"dir/edited", "dir/mode", "emptied", "gone", "whole"} {
		must(t, os.RemoveAll(p.path(name)))
	}
	return p
}

// TestDeletedOnTheHost checks that a file which the host deleted does not come back because the
// sandbox changed it. A file that the sandbox made, or moved there, is not such a file.
func TestDeletedOnTheHost(t *testing.T) {
	p := orphans(t)
	list := p.wants(`
added dir/created
added dir/edited CONFLICT
added dir/link
added dir/mode CONFLICT
added dir/new
deleted dir/old
deleted dir/out
deleted dir/same
added dir/same2 from dir/same
added emptied CONFLICT
added gone/created
added gone/edited CONFLICT
added made/in
added whole CONFLICT
`)
	// After the decision about its origin, a moved file still does not count as deleted by the
	// host.
	_, err := Discard(p.w, slices.DeleteFunc(slices.Clone(list), func(c review.Change) bool { return c.Kind != review.Deleted }))
	must(t, err)
	list = p.wants(`
added dir/created
added dir/edited CONFLICT
added dir/link
added dir/mode CONFLICT
added dir/new
added dir/same2
added emptied CONFLICT
added gone/created
added gone/edited CONFLICT
added made/in
added whole CONFLICT
`)
	p.apply(slices.DeleteFunc(list, func(c review.Change) bool { return c.Implied }), true)
	for name, want := range map[string]string{
		"dir/edited": "(none)", "dir/mode": "(none)", "dir/new": told("dir/old") + "inside\n", "made/in": told("dir/out") + "inside\n",
		"gone/created": "inside\n", "gone/edited": "(none)", "emptied": "(none)", "whole": "(none)",
	} {
		if now := p.get(name); now != want {
			t.Errorf("%s is %q, want %q", name, now, want)
		}
	}
	// Either side can be taken.
	for _, c := range p.changes() {
		switch c.Path {
		case "dir/edited":
			p.order([]Order{{Change: c, Overwrite: true}}, true)
		case "dir/mode":
			_, err := Discard(p.w, []review.Change{c})
			must(t, err)
		}
	}
	if now := p.get("dir/edited"); now != told("dir/edited")+"inside\n" {
		t.Errorf("overwritten, it is %q", now)
	}
	p.wants("\nadded emptied CONFLICT\nadded gone/edited CONFLICT\nadded whole CONFLICT\n")
}

// TestMovedAndBack checks that a moved file is not in conflict after the deletion of its origin
// was discarded.
func TestMovedAndBack(t *testing.T) {
	p := orphans(t)
	_, err := Discard(p.w, slices.DeleteFunc(p.changes(), func(c review.Change) bool { return c.Path != "dir/old" }))
	must(t, err)
	for _, c := range p.changes() {
		if c.Path == "dir/new" && c.Conflict != "" || c.Path == "dir/edited" && c.Conflict == "" {
			t.Errorf("%s: %q", c.Path, c.Conflict)
		}
	}
}

// TestMovedBesideApplied checks that an apply beside a rewritten and moved file does not count as
// a change of the host.
func TestMovedBesideApplied(t *testing.T) {
	p := fresh(t, map[string]string{"m1": "one\n", "dir/m1": "one\n", "dir/gone/x": "x\n", "m3": "three\n"})
	p.inside("for d in . dir; do echo totally > $d/m1; mv $d/m1 $d/m2; echo k > $d/k; mkdir $d/new; echo x > $d/new/x; done; rm -r dir/gone")
	list := p.changes()
	p.apply(slices.DeleteFunc(slices.Clone(list), func(c review.Change) bool {
		return strings.HasSuffix(c.Path, "m1") || strings.HasSuffix(c.Path, "m2")
	}), false)
	list = p.wants("deleted dir/m1\nadded dir/m2\ndeleted m1\nadded m2\n")
	for path, r := range p.apply(list, false) {
		if r != Applied {
			t.Errorf("%s: %s", path, r)
		}
	}
	p.wants("")
	// Other names that come or go there do count as the host's.
	p.inside("echo anew > m3; mv m3 m4")
	pause()
	p.put("other", "")
	p.wants("deleted m3\nadded m4 CONFLICT\n")
}

// TestTakenAwayDuringApply checks that a removal by the host during an apply does not count as
// the apply's, and that the apply's own removals do.
func TestTakenAwayDuringApply(t *testing.T) {
	for _, test := range []struct {
		does, result string
		b            Result
	}{
		{"rm other", "added m4 CONFLICT\n", Applied},
		{"echo 0 > b", "modified b CONFLICT\nadded m4\n", Conflicts},
	} {
		t.Run(test.does, func(t *testing.T) {
			p := fresh(t, map[string]string{"b": "1\n", "m3": "three\n", "other": ""})
			p.inside("echo a > a; echo 2 >> b; echo anew > m3; mv m3 m4")
			list := p.wants("added a\nmodified b\ndeleted m3\nadded m4\n")
			asked := 0
			pick := func(int, []string, []string) bool {
				if asked++; asked == 2 { // the new a is beside its final name by now
					pause()
					p.here(test.does)
				}
				return true
			}
			got := p.order([]Order{{Change: list[0]}, {Change: list[1], Pick: pick}}, false)
			if got["a"] != Applied || got["b"] != test.b || asked < 2 {
				t.Errorf("applied: %v", got)
			}
			p.wants(strings.Replace(test.result, "added m4", "deleted m3\nadded m4", 1))
		})
	}
}
