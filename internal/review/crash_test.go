package review

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// playApply applies everything, and is killed somewhere.
func playApply(args []string) error {
	w := Workspace{Source: args[0], Layer: Layer{Dir: args[1]}}
	list, err := w.Changes()
	if err != nil {
		return err
	}
	var orders []Order
	for _, c := range list {
		orders = append(orders, Order{Change: c})
	}
	fmt.Println("begin")
	_, err = w.Apply(orders, args[2] == "settled")
	return err
}

// Killed anywhere, an apply leaves each file old or new, and another one finishes
// the work and leaves nothing else behind.
func TestApplySurvivesKill(t *testing.T) {
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
		got := p.apply(p.changes(), settled == "settled")
		for path, r := range got {
			if r != Applied {
				t.Fatalf("round %d: %s: %s", round, path, r)
			}
		}
		p.wants("\n")
		noTemps(t, p)
		if _, err := os.Lstat(p.w.Layer.intent()); err == nil {
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

// What a killed apply had not written down is its own still: a directory that it made,
// gave a mode or put in the place of a file is not taken for one that somebody moved
// there.
func TestDirectoryOfKilledApply(t *testing.T) {
	p := fresh(t, map[string]string{"mode/a": "1\n", "file": "1\n"})
	p.inside("mkdir -m 711 made; echo 2 > made/a; chmod 711 mode; echo 2 > mode/a; rm file; mkdir file; echo 2 > file/a")
	var dirs []Order
	for _, c := range p.changes() {
		if c.New.Form == Directory {
			dirs = append(dirs, Order{Change: c})
		}
	}
	// A clock tick lies between what is done to one of them.
	l, err := p.w.open()
	must(t, err)
	defer l.close()
	must(t, unix.Mkdirat(l.host.fd(), "made", 0o700))
	time.Sleep(20 * time.Millisecond)
	a := l.begin(dirs)
	must(t, a.all())
	for _, o := range a.outcome {
		if o.Result != Applied {
			t.Errorf("%s: %s: %s", o.Path, o.Result, o.Why)
		}
	}
	p.wants("\nadded file/a\nadded made/a\nmodified mode/a\n")
}

// Nor is a mode that a killed apply has narrowed, of a file or a directory, one that the
// host has set.
func TestModeOfKilledApply(t *testing.T) {
	p := fresh(t, map[string]string{"file": "1\n", "open": "1\n"})
	p.inside("umask 0; mkdir made; echo 2 > made/a; echo 2 > new; chmod 664 open")
	l, err := p.w.open()
	must(t, err)
	defer l.close()
	var orders []Order
	for _, c := range p.changes() {
		if c.Path != "open" {
			orders = append(orders, Order{Change: c})
		}
	}
	a := l.begin(orders)
	a.written = time.Now().Add(time.Hour) // never
	must(t, a.all())
	if l.host.bornAt("new") == 0 {
		t.Skip("this file system does not tell when a file was made")
	}
	p.wants("\nmode open\n")

	// What has another mode since is the host's. And what the host had before has the
	// inside's mode to come, also when it was written anew.
	must(t, os.Chmod(p.path("new"), 0o600))
	must(t, os.Chmod(p.path("made"), 0o750))
	must(t, os.Remove(p.path("open")))
	must(t, os.WriteFile(p.path("open"), []byte("1\n"), 0o644))
	p.wants("\nmode made CONFLICT\nmode new CONFLICT\nmode open CONFLICT\n")
}

// What a killed apply has beside the host's files is none of them, and goes with the
// next one.
func TestTempOfKilledApply(t *testing.T) {
	p := fresh(t, map[string]string{"gone/a": "1\n", "gone/b": "1\n"})
	p.inside("rm -r gone")
	l, err := p.w.open()
	must(t, err)
	defer l.close()
	list := p.wants("\ndeleted gone/a\ndeleted gone/b\n")
	dir, err := l.host.sub("gone")
	must(t, err)
	a := l.begin([]Order{{Change: list[1]}})
	s := step{dir: dir, name: "a", temp: a.temp(), old: list[1].Old}
	must(t, a.intend([]step{s}))
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

// Of what a killed apply had put in place, what somebody wrote meanwhile is kept: into the
// file that was taken out, at the name, or in the moment before.
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
			l, err := p.w.open()
			must(t, err)
			defer l.close()
			a := l.begin([]Order{{Change: list[0]}})
			a.batch = []step{{dir: l.host, name: "file", temp: a.temp(), old: list[0].Old, fresh: true}}
			s := &a.batch[0]
			must(t, a.intend(a.batch))
			must(t, a.stage(s))
			must(t, a.intend(a.batch))
			if tt.before != nil {
				tt.before(p, s.temp)
			}
			if !tt.waits {
				must(t, unix.Renameat2(l.host.fd(), s.temp, l.host.fd(), s.name, unix.RENAME_EXCHANGE))
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

// playDiscard throws everything away that lies in a directory.
func playDiscard(args []string) error {
	w := Workspace{Source: args[0], Layer: Layer{Dir: args[1]}}
	list, err := w.Changes()
	if err != nil {
		return err
	}
	s, _, err := w.Select(args[2:], true)
	if err != nil {
		return err
	}
	list, _ = s.Pick(list)
	_, err = w.Discard(list)
	return err
}

// A discard that is killed leaves no half of a directory that hides the host's: what
// is missing in it would be taken for deleted by the inside.
func TestDiscardSurvivesKill(t *testing.T) {
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
		if _, err := os.Lstat(p.w.Layer.gone()); what != nil && err == nil {
			t.Error("something is left of it")
		}
		if got := p.inside("cat made/0"); got != "host\n" {
			t.Errorf("inside there is %q", got)
		}
	}
}
