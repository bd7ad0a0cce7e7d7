package apply

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/record"
)

// playApply applies everything, and is killed at any point.
func playApply(args []string) error {
	w := review.Workspace{Source: args[0], Layer: record.Layer{Dir: args[1]}}
	list, err := w.Changes()
	if err != nil {
		return err
	}
	var orders []Order
	for _, c := range list {
		orders = append(orders, Order{Change: c})
	}
	fmt.Println("begin")
	_, err = Orders(w, orders, args[2] == "settled")
	return err
}

// TestApplySurvivesKill checks that an apply that is killed at any point leaves each file old or
// new, and that the next one finishes the work and leaves no other files.
func TestApplySurvivesKill(t *testing.T) {
	racetest.Skip(t)
	for _, settled := range []string{"mounted", "settled"} {
		t.Run(settled, func(t *testing.T) { survives(t, settled) })
	}
}

func survives(t *testing.T, settled string) {
	const count = 300
	files := map[string]string{}
	for i := range count {
		files[fmt.Sprintf("d%d/file%d", i%7, i)] = fmt.Sprintf("old %d\n", i)
		files[fmt.Sprintf("gone/%d", i)] = "old\n"
	}
	killed := 0
	for round := 0; round < 4 || killed < 2; round++ {
		if round == 30 {
			t.Fatalf("only %d were killed in time", killed)
		}
		p := fresh(t, files)
		p.inside(`for d in d*; do for f in $d/*; do echo new > $f; done; done; rm -r gone; mkdir fresh; for i in 1 2 3 4 5 6 7 8 9; do echo new > fresh/$i; done`)
		cmd := again(t, "apply", p.w.Source, p.w.Layer.Dir, settled)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		_, _ = out.Read(make([]byte, 6))
		time.Sleep(time.Duration(rand.IntN(1+(round%4)*(round%4)*20)) * time.Millisecond)
		must(t, cmd.Process.Kill())
		if cmd.Wait() != nil {
			killed++
		}
		for name, old := range files {
			now := p.get(name)
			if strings.HasPrefix(name, "gone/") && now != "(none)" && now != old || !strings.HasPrefix(name, "gone/") && now != "new\n" && now != old {
				t.Fatalf("round %d: %s is %q", round, name, now)
			}
		}
		must(t, Recover(p.w)) // as before each look
		got := p.apply(p.changes(), settled == "settled")
		for path, r := range got {
			if r != Applied {
				t.Fatalf("round %d: %s: %s", round, path, r)
			}
		}
		p.wants("\n")
		noTemps(t, p)
		if _, err := os.Lstat(p.w.Layer.IntentFile()); err == nil {
			t.Fatal("an intent is left")
		}
		for name := range files {
			if now := p.get(name); strings.HasPrefix(name, "d") && now != "new\n" || strings.HasPrefix(name, "gone/") && now != "(none)" {
				t.Fatalf("round %d: in the end %s is %q", round, name, now)
			}
		}
		p.start()
		if got := p.inside("cat d0/file0; ls; cat fresh/9"); !strings.HasPrefix(got, "new\nd0\n") || strings.Contains(got, "gone") {
			t.Fatalf("inside there is %q", got)
		}
	}
}

// applying returns an apply that has not begun, and that is killed before it has written the
// record.
func (l *job) applying(t testing.TB, orders []Order) *applying {
	t.Helper()
	p, err := l.makePlan(orders)
	must(t, err)
	a := p.startApplying()
	a.written = time.Now().Add(time.Hour)
	return a
}

// killed applies all changes, or those that are chosen, and is killed before it has written the
// record.
func (p *project) killed(chosen func(review.Change) bool) {
	p.t.Helper()
	v, err := p.w.OpenView()
	must(p.t, err)
	defer v.Close()
	l := &job{v}
	var orders []Order
	for _, c := range p.changes() {
		if chosen(c) {
			orders = append(orders, Order{Change: c})
		}
	}
	a := l.applying(p.t, orders)
	must(p.t, a.carryOutAll())
	for _, o := range a.outcome {
		if o.Result != Applied {
			p.t.Errorf("%s: %s: %s", o.Path, o.Result, o.Why)
		}
	}
}

// TestDirectoryOfKilledApply checks that the next command writes down the steps that a killed
// apply had not. A directory that the apply made, gave a mode, or put in the place of a file must
// not look like one that the host moved there. A narrower mode must not look like one that the
// host set.
func TestDirectoryOfKilledApply(t *testing.T) {
	p := fresh(t, map[string]string{"mode/a": "1\n", "file": "1\n", "empty/x": "1\n"})
	p.inside("umask 0; mkdir -m 731 made; echo 2 > made/a; chmod 711 mode; echo 2 > mode/a; rm file; mkdir file; echo 2 > file/a; rm -r empty")
	p.killed(func(c review.Change) bool { return c.New.Form == beneath.Directory || c.Kind == review.Deleted })
	must(t, Recover(p.w))
	p.put("empty/y", "host\n")
	p.wants("\nadded file/a\nadded made/a\nmodified mode/a\n")
	p.inside("echo 3 > made/a; echo 3 > file/b; chmod 700 mode")
	for at, r := range p.apply(p.changes(), false) {
		if r != Applied {
			t.Errorf("%s: %s", at, r)
		}
	}
	p.wants("\n")
}

// TestFileOfKilledApply checks that a file that a killed apply has brought does not count as
// changed on the host: the sandbox may change it again.
func TestFileOfKilledApply(t *testing.T) {
	p := fresh(t, map[string]string{"file": "1\n", "open": "1\n", "gone": "1\n", "link-a": "1\n", "hunks": "1\n2\n3\n4\n5\n6\n7\n8\n9\n"})
	must(t, os.Link(p.path("link-a"), p.path("link-b")))
	p.put("later", "1\n")
	pause()
	must(t, os.RemoveAll(p.w.Layer.RecordFile()))
	p.start()
	pause()
	p.inside("umask 0; echo 2 > new; chmod 664 open; rm gone; echo 2 > link-a; echo 2 > link-b; echo 2 > file; ln -s file to; mkdir d; echo 2 > d/a")
	p.killed(func(c review.Change) bool { return c.Path != "link-b" })
	must(t, Recover(p.w))
	noTemps(t, p)
	if Interrupted(p.w) {
		t.Error("the intent stays")
	}
	p.wants("\nmodified link-b\n")
	p.put("gone", "host\n") // the sandbox has not deleted this one
	p.put("file", "host\n") // nor seen this one
	p.wants("\nmodified link-b\n")
	p.inside("for f in new open link-a link-b to d/a file; do echo 3 >> $f; done")
	p.wants("\nmodified d/a\nmodified file CONFLICT\nmodified link-a\nmodified link-b\nmodified new\nmodified open\n")
}

// TestTempOfKilledApply checks that the temporary files of a killed apply do not count as the
// host's, and that the next apply removes them.
func TestTempOfKilledApply(t *testing.T) {
	p := fresh(t, map[string]string{"gone/a": "1\n", "gone/b": "1\n"})
	p.inside("rm -r gone")
	v, err := p.w.OpenView()
	must(t, err)
	defer v.Close()
	l := &job{v}
	list := p.wants("\ndeleted gone/a\ndeleted gone/b\n")
	dir, err := l.Host.OpenDir("gone")
	must(t, err)
	a := l.applying(t, []Order{{Change: list[1]}})
	s := step{do: record.Remove, dir: dir, name: "a", temp: a.nextTemp(), old: list[1].Old}
	a.batch = []step{s}
	must(t, a.writeIntent())
	must(t, os.Rename(p.path("gone/a"), p.path("gone/"+s.temp)))
	list = p.wants("\ndeleted gone/b\n")
	for at, r := range p.apply(list, true) {
		if r != Applied {
			t.Errorf("%s: %s", at, r)
		}
	}
	if _, err := os.Lstat(p.path("gone")); err == nil {
		t.Error("something is left of it")
	}
}

// TestWrittenAfterKilledApply checks that writes of other programs after a killed apply are kept:
// to the replaced file, to the name, or just before the rename.
func TestWrittenAfterKilledApply(t *testing.T) {
	write := func(p *project, name, text string) {
		must(p.t, os.WriteFile(p.path(name), []byte(text), 0o644))
	}
	replace := func(p *project, name, text string) {
		p.put("new", text)
		must(p.t, os.Rename(p.path("new"), p.path(name)))
	}
	for name, tt := range map[string]struct {
		before, after func(p *project, temp string)
		waits         bool // it is not in place yet
		want          string
	}{
		"nothing":                  {want: "inside\n"},
		"not in place":             {waits: true, want: "host\n"},
		"written":                  {after: func(p *project, temp string) { write(p, temp, "edit\n") }, want: "edit\n"},
		"replaced":                 {after: func(p *project, _ string) { replace(p, "file", "edit\n") }, want: "edit\n"},
		"replaced before":          {before: func(p *project, _ string) { replace(p, "file", "edit\n") }, want: "edit\n"},
		"written and replaced":     {after: func(p *project, temp string) { write(p, temp, "edit 1\n"); replace(p, "file", "edit 2\n") }, want: "edit 2\n"},
		"written and ours":         {after: func(p *project, temp string) { write(p, temp, "edit 1\n"); write(p, "file", "edit 2\n") }, want: "edit 2\n"},
		"written and gone":         {after: func(p *project, temp string) { write(p, temp, "edit\n"); must(p.t, os.Remove(p.path("file"))) }, want: "edit\n"},
		"written and not in place": {waits: true, after: func(p *project, _ string) { write(p, "file", "edit\n") }, want: "edit\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := fresh(t, map[string]string{"file": "host\n"})
			p.inside("echo inside > file")
			list := p.wants("\nmodified file\n")
			v, err := p.w.OpenView()
			must(t, err)
			defer v.Close()
			l := &job{v}
			a := l.applying(t, []Order{{Change: list[0]}})
			a.batch = []step{{do: record.Bring, dir: l.Host, name: "file", temp: a.nextTemp(), old: list[0].Old}}
			s := &a.batch[0]
			must(t, a.writeIntent())
			must(t, a.stageFile(s))
			must(t, a.writeIntent())
			if tt.before != nil {
				tt.before(p, s.temp)
			}
			if !tt.waits {
				must(t, unix.Renameat2(l.Host.FD(), s.temp, l.Host.FD(), s.name, unix.RENAME_EXCHANGE))
			}
			if tt.after != nil {
				tt.after(p, s.temp)
			}
			p.start()
			if now := p.get("file"); now != tt.want {
				t.Errorf("it is %q, want %q", now, tt.want)
			}
			noTemps(t, p)
		})
	}
}

// playDiscard discards every change in a directory.
func playDiscard(args []string) error {
	w := review.Workspace{Source: args[0], Layer: record.Layer{Dir: args[1]}}
	list, err := w.Changes()
	if err != nil {
		return err
	}
	s, _, err := w.Select(args[2:], true)
	if err != nil {
		return err
	}
	list, _ = s.Pick(list)
	_, err = Discard(w, list)
	return err
}

// TestDiscardSurvivesKill checks that a killed discard leaves no half of a directory that hides
// the host's: missing files in it would count as deleted by the sandbox.
func TestDiscardSurvivesKill(t *testing.T) {
	racetest.Skip(t)
	const count = 1000
	for _, what := range [][]string{{"made"}, nil} {
		files := map[string]string{"kept": "1\n"}
		for i := range count {
			files[fmt.Sprintf("made/%d", i)] = "host\n"
		}
		p := fresh(t, files)
		p.inside(fmt.Sprintf("rm -r made; mkdir made; chmod 500 made; i=0; while [ $i -lt %d ]; do echo 2 > made/$i; i=$((i+1)); done", count))
		if what != nil {
			p.inside("echo 2 > kept")
		}
		cmd := again(t, "discard", append([]string{p.w.Source, p.w.Layer.Dir}, what...)...)
		before, err := os.Lstat(p.w.Layer.Upper() + "/made")
		must(t, err)
		whole := func() bool {
			now, err := os.Lstat(p.w.Layer.Upper() + "/made")
			return err == nil && now.ModTime().Equal(before.ModTime())
		}
		must(t, cmd.Start())
		for whole() {
			time.Sleep(time.Millisecond)
		}
		must(t, cmd.Process.Kill())
		if cmd.Wait() == nil {
			t.Log("it was not killed in time")
		}
		want := "\n"
		if what != nil {
			want = "\nmodified kept\n"
		}
		p.wants(want)
		p.start()
		if _, err := os.Lstat(p.w.Layer.GoneDir()); what != nil && err == nil {
			t.Error("something is left of it")
		}
		if got := p.inside("cat made/0"); got != "host\n" {
			t.Errorf("inside there is %q", got)
		}
	}
}
