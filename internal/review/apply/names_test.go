package apply

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/record"
)

// replaced makes a project in which the sandbox replaced files by new ones without a mark of
// their origin, and the host then deleted some.
func replaced(t *testing.T) *project {
	t.Helper()
	files := map[string]string{"dir/other": "x\n", "dir/twin": "twin\n", "outer/inner/deep": "deep\n"}
	for _, name := range []string{"renamed", "edited", "remade", "relinked", "relied", "kept", "back"} {
		files["dir/"+name] = told(name)
	}
	p := fresh(t, files)
	must(t, os.Link(p.path("dir/twin"), p.path("dir/twin2")))
	must(t, os.RemoveAll(p.w.Layer.RecordFile()))
	pause()
	p.start()
	pause()
	p.inside(`
		for f in renamed edited kept; do cp dir/$f t; echo inside >> t; mv t dir/$f; done
		echo more >> dir/edited
		rm dir/remade; echo new > dir/remade
		rm dir/relinked; ln -s other dir/relinked
		rm -r outer; mkdir -p outer/inner; echo new > outer/inner/deep; echo new > outer/inner/created
		echo inside >> dir/twin
		echo new > dir/created; mkdir dir/made; echo new > dir/made/in; ln -s other dir/link
		rm dir/back
	`)
	pause()
	for _, name := range []string{"dir/renamed", "dir/edited", "dir/remade", "dir/relinked", "dir/twin", "dir/back", "outer"} {
		must(t, os.RemoveAll(p.path(name)))
	}
	p.put("dir/of the host", "x\n")
	return p
}

// TestReplacedAndDeletedOnTheHost checks that a file counts as deleted on the host even if the
// sandbox has put another one in its place. A file that the sandbox made at an unused name does
// not, whatever the host did beside it.
func TestReplacedAndDeletedOnTheHost(t *testing.T) {
	p := replaced(t)
	list := p.wants(`
added dir/created
added dir/edited CONFLICT
modified dir/kept
added dir/link
added dir/made/in
added dir/relinked CONFLICT
added dir/remade CONFLICT
added dir/renamed CONFLICT
added dir/twin CONFLICT
added outer/inner/created
added outer/inner/deep CONFLICT
`)
	p.apply(slices.DeleteFunc(list, func(c review.Change) bool { return c.Path != "dir/created" && c.Conflict == "" }), true)
	for _, name := range []string{"dir/edited", "dir/relinked", "dir/remade", "dir/renamed", "dir/twin", "outer/inner/deep"} {
		if now := p.get(name); now != "(none)" {
			t.Errorf("%s is back on the host: %q", name, now)
		}
	}
	if now := p.get("dir/created"); now != "new\n" {
		t.Errorf("dir/created is %q", now)
	}
}

// TestMadeAgainAfterDiscard checks that a file which the sandbox makes at a discarded name is
// new: the sandbox knows that the name is gone.
func TestMadeAgainAfterDiscard(t *testing.T) {
	p := replaced(t)
	of := func(c review.Change) bool { return c.Path == "dir/renamed" }
	_, err := Discard(p.w, slices.DeleteFunc(p.changes(), func(c review.Change) bool { return !of(c) }))
	must(t, err)
	if list := p.changes(); slices.ContainsFunc(list, of) {
		t.Errorf("discarded, there is\n%s", summary(list))
	}
	p.start()
	p.inside("echo again > dir/renamed")
	list := p.changes()
	i := slices.IndexFunc(list, of)
	if i < 0 || list[i].Conflict != "" {
		t.Fatalf("made again, there is\n%s", summary(list))
	}
	p.apply(list[i:i+1], true)
	if now := p.get("dir/renamed"); now != "again\n" {
		t.Errorf("it is %q", now)
	}
}

// TestNamesNotKnown checks that a file that the host may have deleted is in conflict if the
// host's names are unknown.
func TestNamesNotKnown(t *testing.T) {
	for name, forget := range map[string]func(*project){
		"none":   func(p *project) { must(t, os.Remove(p.w.Layer.NamesFile())) },
		"broken": func(p *project) { must(t, os.WriteFile(p.w.Layer.NamesFile(), []byte("bothy names 1 1"), 0o600)) },
		"few": func(p *project) {
			must(t, os.Remove(p.w.Layer.NamesFile()))
			rememberTop(p)
		},
		"late": func(p *project) {
			must(t, os.Remove(p.w.Layer.NamesFile()))
			must(t, p.w.Remember())
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := fresh(t, map[string]string{"dir/a": "1\n", "still/a": "1\n"})
			p.inside("echo new > dir/t; mv dir/t dir/a; echo new > still/new; mkdir made; echo new > made/in")
			pause()
			must(t, os.Remove(p.path("dir/a")))
			forget(p)
			p.wants("\nadded dir/a CONFLICT\nadded made/in\nadded still/new\n")
		})
	}
}

func TestAnyBelow(t *testing.T) {
	paths := []string{"a", "a-b", "a/b", "b-", "b0", "c/d/e"} // in order
	for p, want := range map[string]bool{"a": true, "a/b": true, "a/c": false, "b": false, "c": true, "c/d": true, "c/d/e/f": false, "z": false} {
		if anyBelow(paths, p) != want {
			t.Errorf("below %s: %t", p, !want)
		}
	}
}

// rememberTop writes down only the names at the top.
func rememberTop(p *project) {
	p.t.Helper()
	l, err := p.w.OpenView()
	must(p.t, err)
	defer l.Close()
	must(p.t, p.w.Layer.Remember(l.Record, l.Host, 1, record.MaxNames))
}

// TestRememberedOnce checks that the names of a layer are written down once.
func TestRememberedOnce(t *testing.T) {
	p := fresh(t, map[string]string{"file": "1\n"})
	before, err := os.ReadFile(p.w.Layer.NamesFile())
	must(t, err)
	p.put("later", "1\n")
	must(t, p.w.Remember())
	if after, err := os.ReadFile(p.w.Layer.NamesFile()); err != nil || string(after) != string(before) || strings.Contains(string(after), "later") {
		t.Errorf("the names were written anew: %q %v", after, err)
	}
}
