package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/patch"
	"github.com/bothy-dev/bothy/internal/review/record"
	"github.com/bothy-dev/bothy/spec"
)

// pause is longer than the tick of the clock that files are dated by.
func pause() { time.Sleep(15 * time.Millisecond) }

// fresh makes a project with files, and waits so that the files count as written before the
// start.
func fresh(t testing.TB, files map[string]string) *project {
	t.Helper()
	p := newProject(t, files)
	pause()
	must(t, os.RemoveAll(p.w.Layer.RecordFile()))
	p.start()
	pause()
	return p
}

// TestEveryKind checks that every kind of file is applied as it is in the sandbox, and that no
// change is left.
func TestEveryKind(t *testing.T) {
	p := fresh(t, map[string]string{
		"edit": "one\ntwo\n", "replace": "old\n", "gone": "bye\n", "mode": "#!/bin/sh\n", "same": "same\n",
		"dir/a": "a\n", "dir/deep/b": "b\n", "old-name": "a file that is renamed\n", "tofile/x": "x\n", "todir": "file\n",
		"tolink": "file\n", "hollow/only": "x\n", "renewed/a": "a\n", "renewed/b": "b\n", "kept/x": "x\n",
	})
	must(t, os.Symlink("edit", p.path("link")))
	must(t, os.Symlink("edit", p.path("link2file")))
	pause()
	must(t, os.RemoveAll(p.w.Layer.RecordFile()))
	p.start()
	pause()
	p.inside(`
		echo three >> edit
		echo new > r.tmp; mv r.tmp replace
		rm gone; chmod 755 mode; cat same > same.tmp; mv same.tmp same
		echo more >> dir/a; rm -r dir/deep
		mv old-name new-name
		rm -r tofile; echo now a file > tofile
		rm todir; mkdir todir; echo in > todir/in
		ln -sf edit tolink
		rm hollow/only; rmdir hollow
		rm -r renewed; mkdir renewed; echo a2 > renewed/a; echo c > renewed/c
		ln -sfn replace link; rm link2file; echo file > link2file
		mkdir -p new/sub/empty; echo n > new/sub/file; chmod 700 new/sub
		printf 'no line end' > plain; : > empty
		head -c 200000 /dev/urandom > binary; printf 'a\000b' > zero
		mkfifo pipe; chmod 600 kept/x
	`)
	list := p.wants(`
added binary
modified dir/a
deleted dir/deep/b
modified edit
added empty
deleted gone
deleted hollow/only
mode kept/x
modified link
type link2file
mode mode
added new-name from old-name
added new/sub/empty
added new/sub/file
deleted old-name
added pipe REFUSED
added plain
modified renewed/a
deleted renewed/b
added renewed/c
modified replace
type todir
added todir/in
type tofile
deleted tofile/x
type tolink
added zero
`)
	want := p.inside("find . ! -name pipe -printf '%p %y %m %l\\n' | sort; find . -type f ! -name binary | sort | xargs -d '\\n' cat; sha256sum binary")
	got := p.apply(list, true)
	for path, r := range got {
		if r != Applied && path != "pipe" {
			t.Errorf("%s: %s", path, r)
		}
	}
	if got["pipe"] != Failed {
		t.Errorf("the pipe was %s", got["pipe"])
	}
	p.wants("\nadded pipe REFUSED\n")
	must(t, os.RemoveAll(p.w.Layer.Upper()))
	p.start()
	if now := p.inside("find . ! -name pipe -printf '%p %y %m %l\\n' | sort; find . -type f ! -name binary | sort | xargs -d '\\n' cat; sha256sum binary"); now != want {
		t.Errorf("the host has\n%s\nthe inside had\n%s", now, want)
	}
	noTemps(t, p)
}

func noTemps(t testing.TB, p *project) {
	t.Helper()
	must(t, filepath.WalkDir(p.w.Source, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), tempPrefix) {
			t.Errorf("left behind: %s", path)
		}
		return err
	}))
}

// TestConflicts checks that a file which the host changed or deleted is not overwritten. Equal
// changes on both sides, and changes of the host's elsewhere, are not conflicts.
func TestConflicts(t *testing.T) {
	p := fresh(t, map[string]string{
		"both": "1\n", "alike": "1\n", "mine": "1\n", "theirs": "1\n", "deleted-there": "1\n", "deleted-here": "here\n",
		"replaced": "1\n", "dir/file": "1\n", "swapped/file": "1\n", "other/file": "other\n", "gone/a": "1\n", "gone/b": "1\n",
	})
	p.inside(`
		for f in both alike theirs replaced; do echo inside > $f; done
		echo inside >> deleted-here; rm deleted-there
		echo inside > new; echo inside > swapped/file; rm -r gone; mkdir fresh; echo 2 > fresh/mine
	`)
	pause()
	p.put("both", "host\n")
	p.put("alike", "inside\n")
	p.put("mine", "host\n")
	p.put("deleted-there", "host\n")
	must(t, os.Remove(p.path("deleted-here")))
	p.put("r.tmp", "host\n")
	must(t, os.Rename(p.path("r.tmp"), p.path("replaced")))
	must(t, os.Rename(p.path("swapped"), p.path("aside")))
	must(t, os.Rename(p.path("other"), p.path("swapped")))
	p.put("gone/c", "host\n")
	p.put("fresh/yours", "host\n")
	list := p.wants(`
modified both CONFLICT
added deleted-here CONFLICT
deleted deleted-there CONFLICT
added fresh/mine
deleted gone/a
deleted gone/b
deleted gone/c CONFLICT
added new
modified replaced CONFLICT
modified swapped/file CONFLICT
modified theirs
`)
	got := p.apply(list, false)
	for path, want := range map[string]Result{
		"both": Conflicts, "deleted-here": Conflicts, "deleted-there": Conflicts, "replaced": Conflicts,
		"swapped/file": Conflicts, "gone/c": Conflicts, "gone": "",
		"new": Applied, "theirs": Applied, "fresh/mine": Applied, "gone/a": Applied,
	} {
		if got[path] != want {
			t.Errorf("%s: %s, want %s", path, got[path], want)
		}
	}
	for name, want := range map[string]string{
		"both": "host\n", "deleted-there": "host\n", "deleted-here": "(none)", "replaced": "host\n", "swapped/file": "other\n",
		"gone/c": "host\n", "gone/a": "(none)", "mine": "host\n", "theirs": "inside\n", "fresh/yours": "host\n", "fresh/mine": "2\n",
	} {
		if now := p.get(name); now != want {
			t.Errorf("%s is %q, want %q", name, now, want)
		}
	}
	// One of them is overwritten, by name.
	for _, c := range p.changes() {
		if c.Path == "both" {
			p.order([]Order{{Change: c, Overwrite: true}}, false)
		}
	}
	if now := p.get("both"); now != "inside\n" {
		t.Errorf("overwritten, it is %q", now)
	}
}

// TestAppliedWhileMounted checks that a change applied while the layer was mounted is not pending
// any more, is pending again when it changes again, and leaves the layer before the next start.
func TestAppliedWhileMounted(t *testing.T) {
	p := fresh(t, map[string]string{"a": "1\n", "b": "1\n", "gone": "1\n"})
	p.inside("echo 2 > a; echo 2 > b; rm gone; mkdir d; echo 1 > d/x; echo 1 > d/y")
	p.apply(p.changes(), false)
	p.wants("\n")
	p.put("b", "host\n") // after it was applied: the sandbox's file is older
	p.put("gone", "host\n")
	p.wants("\n")
	p.inside("echo 3 > a; echo 3 > b; echo 2 > d/x")
	p.wants("\nmodified a\nmodified b CONFLICT\nmodified d/x\n")
	p.start()
	if got := p.inside("cat a b gone d/x d/y"); got != "3\n3\nhost\n2\n1\n" {
		t.Errorf("inside there is %q", got)
	}
	list := p.wants("\nmodified a\nmodified b CONFLICT\nmodified d/x\n")
	if got := p.apply(list, true); got["a"] != Applied || got["b"] != Conflicts || got["d/x"] != Applied {
		t.Errorf("%v", got)
	}
	left, err := os.ReadDir(p.w.Layer.Upper())
	must(t, err)
	if len(left) != 1 || left[0].Name() != "b" {
		t.Errorf("the layer has %v", left)
	}
	p.put("a", "host\n")
	p.put("d/z", "host\n")
	if got := p.inside("cat a d/x d/z"); got != "host\n2\nhost\n" {
		t.Errorf("inside there is %q", got)
	}
}

func TestDiscard(t *testing.T) {
	p := fresh(t, map[string]string{"a": "1\n", "b": "1\n", "dir/x": "1\n", "dir/y": "1\n", "made/x": "1\n", "made/y": "1\n"})
	p.inside("echo 2 > a; echo 2 > b; rm -r dir; rm -r made; mkdir made; echo 2 > made/x; echo 2 > made/z; echo n > new")
	discard := func(paths ...string) map[string]Result {
		t.Helper()
		s, _, err := p.w.Select(paths, true)
		must(t, err)
		list, _ := s.Pick(p.changes())
		done, err := Discard(p.w, list)
		must(t, err)
		got := map[string]Result{}
		for _, o := range done {
			got[o.Path] = o.Result
		}
		return got
	}
	discard("a")
	if got := discard("made/x"); got["made/x"] != Failed {
		t.Errorf("a part of a directory that hides the host's: %v", got)
	}
	if got := discard("dir/x"); got["dir/x"] != Failed {
		t.Errorf("a part of a deleted directory: %v", got)
	}
	discard("made/z", "dir")
	p.wants("\nmodified b\nmodified made/x\ndeleted made/y\nadded new\n")
	discard("made")
	p.wants("\nmodified b\nadded new\n")
	if got := p.inside("cat a dir/x made/x made/y"); got != "1\n1\n1\n1\n" {
		t.Errorf("inside there is %q", got)
	}
	discard()
	p.wants("\n")
	if got := p.inside("cat b; ls new || true"); !strings.HasPrefix(got, "1\n") {
		t.Errorf("inside there is %q", got)
	}
}

// TestApplyFollowsNoLink checks that apply does not follow a link that the sandbox made, or that
// is in the way on the host.
func TestApplyFollowsNoLink(t *testing.T) {
	p := fresh(t, map[string]string{"dir/file": "1\n", "hard": "1\n", "sub/x": "1\n"})
	outside := filepath.Join(filepath.Dir(p.w.Source), "outside")
	must(t, os.MkdirAll(outside, 0o755))
	must(t, os.WriteFile(outside+"/file", []byte("precious\n"), 0o644))
	must(t, os.WriteFile(outside+"/hard", []byte("1\n"), 0o644))
	must(t, os.Remove(p.path("hard")))
	must(t, os.Link(outside+"/hard", p.path("hard")))
	pause()
	p.start()
	pause()
	p.inside("echo 2 > dir/file; echo 2 > hard; echo 2 > sub/x; ln -s " + outside + " way")
	list := p.changes()
	// In the moment between the look and the apply, a parent becomes a link.
	must(t, os.Rename(p.path("dir"), p.path("dir.aside")))
	must(t, os.Symlink(outside, p.path("dir")))
	got := p.apply(list, false)
	if got["dir/file"] == Applied || got["hard"] != Applied {
		t.Errorf("%v", got)
	}
	for name, want := range map[string]string{"file": "precious\n", "hard": "1\n"} {
		if b, err := os.ReadFile(filepath.Join(outside, name)); err != nil || string(b) != want {
			t.Errorf("outside, %s is %q, %v", name, b, err)
		}
	}
	if to, err := os.Readlink(p.path("way")); err != nil || to != outside {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	// A file below a link that was applied does not go through it.
	p.inside("rm way; mkdir way; echo 2 > way/file")
	got = p.apply(p.changes(), false)
	if b, _ := os.ReadFile(outside + "/file"); string(b) != "precious\n" {
		t.Errorf("it went through the link: %q", b)
	}
	t.Log(got)
}

// TestApplyModes checks that set-uid bits and attributes are not applied.
func TestApplyModes(t *testing.T) {
	p := fresh(t, map[string]string{"shared": "1\n", "opened": "1\n", "group/x": "1\n"})
	must(t, unix.Chmod(p.path("shared"), 0o666))
	must(t, unix.Chmod(p.path("group"), unix.S_ISGID|0o755))
	pause()
	must(t, os.RemoveAll(p.w.Layer.RecordFile()))
	p.start()
	pause()
	p.inside("echo x > tool; chmod 4755 tool; echo x > open; chmod 666 open; echo x > shared; chmod 666 opened; chmod 700 group; mkdir group/sub")
	must(t, unix.Setxattr(filepath.Join(p.w.Layer.Upper(), "tool"), "user.note", []byte("x"), 0))
	p.apply(p.changes(), true)
	var st unix.Stat_t
	must(t, unix.Lstat(p.path("tool"), &st))
	if st.Mode&0o7777 != 0o755 || int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid() {
		t.Errorf("it has mode %o and belongs to %d:%d", st.Mode, st.Uid, st.Gid)
	}
	for name, want := range map[string]uint32{"open": 0o644, "shared": 0o666, "opened": 0o666, "group": unix.S_ISGID | 0o700, "group/sub": unix.S_ISGID | 0o755} {
		if must(t, unix.Lstat(p.path(name), &st)); st.Mode&0o7777 != want {
			t.Errorf("%s has mode %o, want %o", name, st.Mode&0o7777, want)
		}
	}
	if _, err := unix.Getxattr(p.path("tool"), "user.note", nil); err == nil {
		t.Error("an attribute came along")
	}
}

// TestModeWithText checks that a new text gives other users no more access to a file than before,
// except to run it if they may read it. A narrower mode is shown, as is a change of the mode
// alone.
func TestModeWithText(t *testing.T) {
	modes := map[string]struct{ host, inside, want os.FileMode }{
		"secret": {0o600, 0o644, 0o600}, "key": {0o640, 0o666, 0o640}, "tool": {0o600, 0o755, 0o700}, "script": {0o644, 0o755, 0o755},
		"odd": {0o711, 0o755, 0o711}, "less": {0o644, 0o600, 0o600}, "same": {0o644, 0o644, 0o644},
	}
	files := map[string]string{"alone": "1\n"}
	for name := range modes {
		files[name] = "1\n"
	}
	p := fresh(t, files)
	for name, m := range modes {
		must(t, os.Chmod(p.path(name), m.host))
	}
	must(t, os.Chmod(p.path("alone"), 0o600))
	pause()
	must(t, os.RemoveAll(p.w.Layer.RecordFile()))
	p.start()
	pause()
	script := "chmod 644 alone\n"
	for name, m := range modes {
		script += fmt.Sprintf("echo 2 >t; chmod %o t; mv t %s\n", m.inside, name)
	}
	p.inside(script)
	list := p.changes()
	reader, err := patch.Open(p.w)
	must(t, err)
	defer reader.Close()
	for _, c := range list {
		text, err := reader.Text(c)
		must(t, err)
		var b strings.Builder
		patch := patch.Patch{W: &b}
		must(t, patch.Write(c, text))
		want := map[string]string{"less": "# mode of less: 600, was 644", "alone": "# mode of alone: 644, was 600"}[c.Path]
		if got, _, _ := strings.Cut(b.String(), ", which"); strings.HasPrefix(got, "#") != (want != "") || want != "" && got != want {
			t.Errorf("%s is shown as %s", c.Path, b.String())
		}
		if mode, other := c.Chmod(); other != (c.Path == "less" || c.Path == "tool" || c.Path == "script") || c.Kind == review.Modified && os.FileMode(mode) != modes[c.Path].want {
			t.Errorf("%s shall get %o, %v", c.Path, mode, other)
		}
	}
	p.apply(list, true)
	modes["alone"] = struct{ host, inside, want os.FileMode }{want: 0o644}
	for name, m := range modes {
		if st, err := os.Lstat(p.path(name)); err != nil || st.Mode() != m.want {
			t.Errorf("%s has mode %o, want %o", name, st.Mode(), m.want)
		}
	}
	p.wants("\n")
}

// TestApplyHoles checks that a file of holes, which costs the sandbox nothing, costs the host
// nothing. The data in it keeps its place.
func TestApplyHoles(t *testing.T) {
	p := fresh(t, nil)
	p.inside("truncate -s 64M empty; truncate -s 16M some; printf x | dd of=some bs=1 seek=10000000 conv=notrunc 2>/dev/null; printf y >> some")
	some, err := os.ReadFile(filepath.Join(p.w.Layer.Upper(), "some"))
	must(t, err)
	shown := beneath.DigestOfText(string(some))
	var orders []Order
	for _, c := range p.changes() {
		o := Order{Change: c}
		if c.Path == "some" {
			o.Shown = &shown
		}
		orders = append(orders, o)
	}
	if got := p.order(orders, true); got["empty"] != Applied || got["some"] != Applied {
		t.Fatal(got)
	}
	if p.get("some") != string(some) {
		t.Error("it is another file")
	}
	for _, name := range []string{"empty", "some"} {
		var st unix.Stat_t
		must(t, unix.Lstat(p.path(name), &st))
		if used := st.Blocks * 512; used > 1<<20 || st.Size < 16<<20 {
			t.Errorf("%s takes %d bytes of %d", name, used, st.Size)
		}
	}
}

// TestApplyOpenDirectories checks that a directory which the sandbox opened to all users is not
// open to all on the host. That difference is not a pending change until the sandbox changes it
// again.
func TestApplyOpenDirectories(t *testing.T) {
	p := fresh(t, map[string]string{"was": "1\n", "group/x": "1\n"})
	p.inside("umask 0; mkdir -p open/sub group/new; echo x > open/sub/file; echo x > group/new/file; rm was; mkdir was; echo x > was/file")
	p.apply(p.changes(), false)
	for name, want := range map[string]uint32{"open": 0o755, "open/sub": 0o755, "was": 0o755, "group": 0o755, "group/new": 0o755} {
		var st unix.Stat_t
		if must(t, unix.Lstat(p.path(name), &st)); st.Mode&0o7777 != want {
			t.Errorf("%s has mode %o, want %o", name, st.Mode&0o7777, want)
		}
	}
	p.wants("")
	p.start()
	if left, err := os.ReadDir(p.w.Layer.Upper()); err != nil || len(left) > 0 {
		t.Errorf("the layer still has %v, %v", left, err)
	}
	p.inside("echo 2 > open/sub/file; chmod 777 open")
	list := p.wants("mode open\nmodified open/sub/file\n")
	if len(list[0].Flags) != 1 {
		t.Errorf("that it is opened has the flags %v", list[0].Flags)
	}
	p.apply(list, true)
	p.wants("")
}

// TestWayToWhatLiesOver checks that directories that exist only as the way to a mount over the
// workspace are not changes, unless they contain something else.
func TestWayToWhatLiesOver(t *testing.T) {
	p := fresh(t, map[string]string{"was/x": "1\n"})
	p.w.Over = []string{"a/b/c", "d/e/f", "was/g/h"}
	p.inside("mkdir -p a/b/c d/e/f was/g/h; echo 1 > d/x; mkdir empty")
	p.wants("\nadded d/x\nadded empty\n")
	p.apply(p.changes(), true)
	for _, name := range []string{"a", "d/e", "was/g"} {
		if _, err := os.Lstat(p.path(name)); err == nil {
			t.Errorf("there is %s", name)
		}
	}
}

// TestApplyOpenParents checks that directories made only as parents of an applied file are not
// open to all users either.
func TestApplyOpenParents(t *testing.T) {
	p := fresh(t, nil)
	p.inside("umask 0; mkdir -p a/b; echo x > a/b/file")
	p.apply(slices.DeleteFunc(p.changes(), func(c review.Change) bool { return c.Path != "a/b/file" }), false)
	for _, name := range []string{"a", "a/b"} {
		var st unix.Stat_t
		if must(t, unix.Lstat(p.path(name), &st)); st.Mode&0o7777 != 0o755 {
			t.Errorf("%s has mode %o", name, st.Mode&0o7777)
		}
	}
	p.wants("")
}

// TestApplyAsSeen checks that a file that changes after the look is not applied unseen.
func TestApplyAsSeen(t *testing.T) {
	p := fresh(t, map[string]string{"host": "1\n"})
	p.inside("echo 2 > host; echo seen > new")
	list := p.changes()
	p.inside("echo other > new")
	p.put("host", "mine\n")
	got := p.apply(list, false)
	if got["new"] != Conflicts || got["host"] != Conflicts || p.get("new") != "(none)" || p.get("host") != "mine\n" {
		t.Errorf("%v, %q, %q", got, p.get("new"), p.get("host"))
	}
	noTemps(t, p)
}

// TestApplyRaces swaps directories for links, and files for others, on the host while everything
// is applied over and over. It checks that nothing outside is touched, and that the host's last
// write to a file is never lost without a copy of it in the list.
func TestApplyRaces(t *testing.T) {
	p := fresh(t, map[string]string{"dir/a": "1\n", "dir/b": "1\n", "file": "host 0\n"})
	outside := filepath.Join(filepath.Dir(p.w.Source), "outside")
	must(t, os.MkdirAll(outside, 0o755))
	for _, name := range []string{"a", "b", "new"} {
		must(t, os.WriteFile(filepath.Join(outside, name), []byte("precious\n"), 0o644))
	}
	p.inside("echo 2 > dir/a; echo 2 > dir/b; echo 2 > dir/new; echo inside > file")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(p.path("dir"), p.path("aside"))
			_ = os.Symlink(outside, p.path("dir"))
			_ = os.Remove(p.path("dir"))
			_ = os.Rename(p.path("aside"), p.path("dir"))
		}
	}()
	for began := time.Now(); time.Since(began) < 2*time.Second; {
		var orders []Order
		list, err := p.w.Changes()
		if err != nil {
			continue
		}
		for _, c := range list {
			orders = append(orders, Order{Change: c, Overwrite: c.Path != "file"})
		}
		_, _ = Orders(p.w, orders, false)
	}
	close(stop)
	<-stopped
	for _, name := range []string{"a", "b", "new"} {
		if b, err := os.ReadFile(filepath.Join(outside, name)); err != nil || string(b) != "precious\n" {
			t.Errorf("outside, %s is %q, %v", name, b, err)
		}
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) != 3 {
		t.Errorf("outside there is %v, %v", list, err)
	}
}

// TestApplyRacesWithAnEditor checks that an edit on the host is never lost, before, after, or
// during an apply.
func TestApplyRacesWithAnEditor(t *testing.T) {
	p := fresh(t, map[string]string{"file": "host\n"})
	p.inside("echo inside > file")
	upper := filepath.Join(p.w.Layer.Upper(), "file")
	// Both must have been first for this to be a race. Whether ours was in place and taken back
	// depends on luck: see TestTakenBackUnderAnEditor.
	var before, after, amid int
	for round := 0; round < 60 || before < 3 || after < 3; round++ {
		if round > 1000 {
			t.Fatalf("nothing meets: %d times it was applied first, %d times the editor was", before, after)
		}
		must(t, os.WriteFile(upper, fmt.Appendf(nil, "inside %d\n", round), 0o644))
		list := p.changes()
		const edits = 8
		for n := range edits {
			must(t, os.WriteFile(p.path(fmt.Sprint(n, ".tmp")), fmt.Appendf(nil, "edit %d.%d\n", round, n), 0o644))
		}
		applied := func() bool {
			b, _ := os.ReadFile(p.path("file"))
			return strings.HasPrefix(string(b), "inside")
		}
		over, seen := make(chan struct{}), make(chan bool)
		go func() {
			for waits := round%2 == 0; waits && !applied(); { // it edits the file that was applied just now
				select {
				case <-over:
					waits = false
				default:
				}
			}
			some := false
			for n := range edits {
				some = some || applied()
				_ = os.Rename(p.path(fmt.Sprint(n, ".tmp")), p.path("file"))
			}
			seen <- some
		}()
		got := p.order([]Order{{Change: list[0], Overwrite: true}}, false)
		close(over)
		some := <-seen
		if now, want := p.get("file"), fmt.Sprintf("edit %d.%d\n", round, edits-1); now != want {
			t.Fatalf("round %d: it is %q, want %q, and the apply says %v", round, now, want, got)
		}
		if left := glob(t, p.path(".*")); len(left) > 0 {
			t.Fatalf("round %d: %v lies about", round, left)
		}
		switch {
		case got["file"] == Applied:
			before++ // all edits were later, and have replaced it
		case got["file"] != Conflicts:
			t.Fatalf("round %d: the apply says %v", round, got)
		case some:
			amid++ // it was there for a moment, and was taken back
		default:
			after++
		}
	}
	t.Logf("applied %d times, conflicts %d times, taken back %d times", before, after, amid)
}

// TestTakenBackUnderAnEditor checks that a file that an editor puts in the place of the one to
// take back counts as newer than the one that goes back.
func TestTakenBackUnderAnEditor(t *testing.T) {
	for name, tt := range map[string]struct {
		do   record.Deed
		edit func(p *project)
		want string
	}{
		"replaced":          {record.Bring, func(p *project) {}, "edit 1\n"},
		"replaced twice":    {record.Bring, func(p *project) { p.put("new", "edit 2\n"); must(p.t, os.Rename(p.path("new"), p.path("file"))) }, "edit 2\n"},
		"and ours touched":  {record.Bring, func(p *project) { must(p.t, os.Chtimes(p.path("file"), time.Time{}, time.Unix(1, 0))) }, "edit 1\n"},
		"then moved away":   {record.Bring, func(p *project) { must(p.t, os.Rename(p.path("file"), p.path("elsewhere"))) }, "edit 1\n"},
		"deleted":           {record.Remove, func(p *project) {}, "edit 1\n"},
		"deleted, then new": {record.Remove, func(p *project) { p.put("file", "edit 2\n") }, "edit 2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := fresh(t, map[string]string{"file": "host\n"})
			top, err := beneath.OpenTop(p.w.Source)
			must(t, err)
			defer top.Close()
			s := step{dir: top, name: "file", temp: "temp", do: tt.do}
			s.old, err = top.Entry("file")
			must(t, err)
			// The first edit comes between the look at the file and its replacement: as place
			// leaves it.
			p.put("temp", "edit 1\n")
			must(t, os.Remove(p.path("file")))
			if tt.do == record.Bring {
				p.put("file", "ours\n")
				s.mine, err = top.Identify("file")
				must(t, err)
			}
			tt.edit(p)
			if err := s.removeOld(); !errors.Is(err, spec.ErrConflict) {
				t.Errorf("it says %v", err)
			}
			if now := p.get("file"); now != tt.want || p.get("temp") != "(none)" {
				t.Errorf("it is %q, want %q; beside it is %q", now, tt.want, p.get("temp"))
			}
		})
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	must(t, err)
	return list
}
