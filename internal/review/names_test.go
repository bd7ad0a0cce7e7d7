package review

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
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
	must(t, os.RemoveAll(p.w.Layer.record()))
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
	p.apply(slices.DeleteFunc(list, func(c Change) bool { return c.Path != "dir/created" && c.Conflict == "" }), true)
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
	of := func(c Change) bool { return c.Path == "dir/renamed" }
	_, err := p.w.Discard(slices.DeleteFunc(p.changes(), func(c Change) bool { return !of(c) }))
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
		"none":   func(p *project) { must(t, os.Remove(p.w.Layer.names())) },
		"broken": func(p *project) { must(t, os.WriteFile(p.w.Layer.names(), []byte(namesHeader+"1"), 0o600)) },
		"few": func(p *project) {
			must(t, os.Remove(p.w.Layer.names()))
			must(t, p.w.remember(1, maxNames))
		},
		"late": func(p *project) {
			must(t, os.Remove(p.w.Layer.names()))
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

// TestNamesAreBounded checks that the list of names is bounded, and that names beyond the limit
// are unknown.
func TestNamesAreBounded(t *testing.T) {
	p := fresh(t, map[string]string{"a": "1\n", "d/a": "1\n", "d/b": "1\n", "d/c": "1\n", "d/e/f": "1\n"})
	whole, err := os.ReadFile(p.w.Layer.names())
	must(t, err)
	count := strings.Count(string(whole), "\x00") - 1 // without the first line
	count -= strings.Count(string(whole), "\x00"+string(rune(stateOf)))
	if _, err := parseNames(whole, count); err != nil {
		t.Error(err)
	}
	if _, err := parseNames(whole, count-1); err == nil {
		t.Error("more names are read than may be")
	}
	if _, err := parseNames(append(whole, make([]byte, maxNamesFile)...), maxNames); err == nil || !strings.Contains(err.Error(), "large") {
		t.Errorf("a file that is too large: %v", err)
	}
	must(t, os.Remove(p.w.Layer.names()))
	must(t, p.w.remember(maxRemembered, 5)) // the top, its entries, the directory and one of its entries
	n, err := p.w.Layer.readNames()
	must(t, err)
	known := 0
	for _, name := range []string{"a", "b", "c", "e"} {
		switch n.had("d/" + name) {
		case present:
			known++
		case absent:
			t.Errorf("d/%s was not there, it says", name)
		}
	}
	for at, want := range map[string]answer{"a": present, "d": present, "none": absent, "d/none": unknown, "d/e/f": unknown} {
		if got := n.had(at); got != want {
			t.Errorf("of %q it is known %v, want %v", at, got, want)
		}
	}
	if known != 1 {
		t.Errorf("%d names of the directory are known, want 1", known)
	}
}

// TestNamesRemembered checks that unusual names are found again, and that a path below a file is
// absent.
func TestNamesRemembered(t *testing.T) {
	odd := "a\nb \xff"
	p := fresh(t, map[string]string{"d/" + odd: "1\n", "file": "1\n"})
	n, err := p.w.Layer.readNames()
	must(t, err)
	for at, want := range map[string]answer{
		"d": present, "d/" + odd: present, "file": present, "d/none": absent, "none/at/all": absent, "file/in": absent,
	} {
		if got := n.had(at); got != want {
			t.Errorf("of %q it is known %v, want %v", at, got, want)
		}
	}
	before, err := os.ReadFile(p.w.Layer.names())
	must(t, err)
	p.put("later", "1\n")
	must(t, p.w.Remember())
	if after, err := os.ReadFile(p.w.Layer.names()); err != nil || string(after) != string(before) || strings.Contains(string(after), "later") {
		t.Errorf("the names were written anew: %q %v", after, err)
	}
}

// TestWhoseNames checks that namesSince does not read the names, because every start calls it.
func TestWhoseNames(t *testing.T) {
	files := map[string]string{}
	for i := range 2000 {
		files[fmt.Sprintf("d/%d", i)] = ""
	}
	p := fresh(t, files)
	if n := testing.AllocsPerRun(1, func() { must(t, p.w.Remember()) }); n > 200 {
		t.Errorf("%.0f allocations with 2000 names", n)
	}
	rec, err := p.w.Layer.read()
	must(t, err)
	since, err := p.w.Layer.namesSince()
	if err != nil || since != rec.Since {
		t.Errorf("%d, %v, of %d", since, err, rec.Since)
	}
	for _, head := range []string{"", namesHeader, namesHeader + "12", namesHeader + "x\x00", "bothy names 2 12\x00", namesHeader + "123456789012345678901\x00"} {
		must(t, os.WriteFile(p.w.Layer.names(), []byte(head), 0o600))
		if since, err := p.w.Layer.namesSince(); err == nil {
			t.Errorf("%q is of %d", head, since)
		}
		must(t, p.w.Remember()) // again
		if since, err := p.w.Layer.namesSince(); err != nil || since != rec.Since {
			t.Errorf("%q stays: %d, %v", head, since, err)
		}
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
