package reviews

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/apply"
	"github.com/bothy-dev/bothy/internal/review/patch"
	"github.com/bothy-dev/bothy/spec"
)

// layered returns a workspace with some files written in its layer.
func layered(t *testing.T, files ...string) []*reviewed {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	r := &reviewed{Workspace: review.Workspace{Source: filepath.Join(base, "host"), Layer: review.Layer{Dir: filepath.Join(base, "layer")}}}
	must(t, os.Mkdir(r.Source, 0o755))
	must(t, os.Mkdir(r.Layer.Dir, 0o755))
	older(t, r.Source)
	must(t, r.Prepare())
	must(t, r.Remember())
	for _, name := range files {
		must(t, os.WriteFile(filepath.Join(r.Layer.Upper(), name), []byte("in "+name+"\n"), 0o644))
	}
	r.changes, err = r.Changes()
	must(t, err)
	return []*reviewed{r}
}

// older waits until a directory is older than the current time, by the clock of file timestamps.
func older(t *testing.T, dir string) {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(dir, &st))
	for now := st.Ctim; now.Nano() <= st.Ctim.Nano(); {
		must(t, unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now))
	}
}

// TestPatchLeavesFlagged checks that flagged changes are in a patch only on request.
func TestPatchLeavesFlagged(t *testing.T) {
	list := layered(t, "Makefile", "a.txt")
	sb := &spec.Sandbox{Name: "shell-app"}
	for _, flagged := range []bool{false, true} {
		a, _ := captured(t)
		f := &applyFlags{patch: filepath.Join(t.TempDir(), "patch"), flagged: flagged}
		err := a.writePatchTo(f, sb, list, nil)
		if flagged != (err == nil) || !flagged && !errors.Is(err, spec.ErrDenied) {
			t.Errorf("flagged %t: %v", flagged, err)
		}
		b, err := os.ReadFile(f.patch)
		must(t, err)
		if !strings.Contains(string(b), "a.txt") || strings.Contains(string(b), "Makefile") != flagged {
			t.Errorf("flagged %t: %s", flagged, b)
		}
	}
}

// TestApplyDeletedWithFlagged checks a deleted directory that holds a flagged file. The other files
// go and the file is reported as left, also by a dry run, which respects the pattern, too.
func TestApplyDeletedWithFlagged(t *testing.T) {
	list := layered(t)
	r := list[0]
	must(t, os.Mkdir(filepath.Join(r.Source, "d"), 0o755))
	for _, name := range []string{"package-lock.json", "x"} {
		must(t, os.WriteFile(filepath.Join(r.Source, "d", name), nil, 0o644))
	}
	older(t, filepath.Join(r.Source, "d", "x"))
	must(t, r.Prepare())
	must(t, r.Remember())
	must(t, unix.Mknod(filepath.Join(r.Layer.Upper(), "d"), unix.S_IFCHR, 0))
	must(t, os.WriteFile(filepath.Join(r.Layer.Upper(), "new"), []byte("in new\n"), 0o644))
	var err error
	r.changes, err = r.Changes()
	must(t, err)
	pattern, err := patch.Compile("other")
	must(t, err)
	const flagged = "flagged d/package-lock.json: without it other versions are installed, and run, than those that were reviewed\n"
	for _, tt := range []struct {
		f    applyFlags
		want string
	}{
		{applyFlags{dryRun: true}, flagged + "would apply d/x\nwould apply new\n"},
		{applyFlags{dryRun: true, pick: patch.Matching(pattern)}, "unmatched d\n" + flagged + "unmatched d/x\nunmatched new\n"},
		{applyFlags{}, flagged + "applied d/x\napplied new\n"},
	} {
		a, printed := captured(t)
		s := settlement{app: a}
		orders := a.orders(&tt.f, r, nil)
		if tt.f.dryRun {
			must(t, s.wouldBe(r, orders))
		} else {
			done, err := apply.Orders(r.Workspace, orders, false)
			must(t, err)
			s.addOutcome(r, done)
		}
		must(t, s.printOutcome())
		if got := printed(); got != tt.want {
			t.Errorf("it says\n%swant\n%s", got, tt.want)
		}
		if err := s.verdict(&spec.Sandbox{}); !errors.Is(err, spec.ErrDenied) {
			t.Errorf("it ends with %v", err)
		}
	}
}

// TestVerdict checks that the gravest result decides the error, and that the hints cover all
// results.
func TestVerdict(t *testing.T) {
	sb := &spec.Sandbox{Name: "box"}
	const look = "look at them: bothy diff box PATH; then: bothy apply box --flagged PATH"
	for _, tt := range []struct {
		discards bool
		results  []apply.Result
		class    error
		says     string
		hint     string
	}{
		{results: []apply.Result{apply.Applied, resultDeclined}},
		{results: []apply.Result{apply.Applied, apply.Left}, class: spec.ErrConflict, says: "1 change left: each goes with one that is not applied"},
		{results: []apply.Result{resultFlagged}, class: spec.ErrDenied, says: "1 change left: it may make", hint: look},
		{results: []apply.Result{apply.Failed, resultFlagged}, says: "1 change could not be applied", hint: "bothy exec box chmod u+rwX PATH; 1 change left: it may make something run on this host later: " + look},
		{results: []apply.Result{resultFlagged, apply.Conflicts}, class: spec.ErrConflict, says: "1 change left: in conflict", hint: look},
		{discards: true, results: []apply.Result{apply.Failed}, says: "1 change could not be discarded", hint: "bothy discard box"},
	} {
		a, _ := captured(t)
		s := settlement{app: a, discards: tt.discards}
		for _, r := range tt.results {
			s.addPath(&reviewed{}, apply.Outcome{Result: r})
		}
		err := s.verdict(sb)
		if tt.says == "" {
			must(t, err)
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), tt.says) || !strings.HasSuffix(spec.Hint(err), tt.hint) || tt.class != nil && !errors.Is(err, tt.class) {
			t.Errorf("%v: %v; hint: %s", tt.results, err, spec.Hint(err))
		}
	}
}

// said returns the output so far.
func said(a *app) string {
	b, _ := os.ReadFile(a.Out.Name())
	return string(b)
}

// TestInterruptedAtQuestion checks that a signal at a question ends the command, which reports the
// applied and the skipped changes.
func TestInterruptedAtQuestion(t *testing.T) {
	list := layered(t, "a.txt", "b.txt")
	a, _ := captured(t)
	in, typed, err := os.Pipe()
	must(t, err)
	defer in.Close()
	defer typed.Close()
	a.In = in
	q := &inquiry{app: a, from: bufio.NewReader(in)}
	go func() {
		for !strings.Contains(said(a), "apply b.txt, added? [y,n,q,?] ") {
			time.Sleep(time.Millisecond)
		}
		_ = unix.Kill(os.Getpid(), unix.SIGTERM)
	}()
	_, err = typed.WriteString("y\n")
	must(t, err)
	_, err = q.settle(t.Context(), &applyFlags{interactive: true}, list[0], nil)
	if code := spec.ExitCode(err); code != 143 {
		t.Errorf("it ends with %d: %v", code, err)
	}
	for _, tt := range []struct {
		results []apply.Result
		want    string
	}{
		{nil, "bothy: nothing was applied; waiting as before: 2 changes\n"},
		{[]apply.Result{apply.Applied}, "applied earlier\nbothy: nothing more was applied; waiting as before: 2 changes\n"},
	} {
		a, printed := captured(t)
		s := settlement{app: a}
		for _, result := range tt.results {
			s.addPath(list[0], apply.Outcome{Change: review.Change{Path: "earlier"}, Result: result})
		}
		s.breakOff(list)
		if got := printed(); got != tt.want {
			t.Errorf("it says %q, not %q", got, tt.want)
		}
	}
}

// TestTerminalGoneAtQuestion checks that nothing is applied if the terminal vanishes at a question,
// even without a signal.
func TestTerminalGoneAtQuestion(t *testing.T) {
	list := layered(t, "a.txt", "b.txt")
	a, _ := captured(t)
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	defer tty.Close()
	a.In = tty
	q := &inquiry{app: a, from: bufio.NewReader(tty), terminal: true}
	_, err = unix.Write(fd, []byte("y\n"))
	must(t, err)
	go func() {
		for !strings.Contains(said(a), "apply b.txt, added? [y,n,q,?] ") {
			time.Sleep(time.Millisecond)
		}
		_ = unix.Close(fd)
	}()
	orders, err := q.settle(t.Context(), &applyFlags{interactive: true}, list[0], nil)
	if code := spec.ExitCode(err); code != 129 || orders != nil {
		t.Errorf("it ends with %d: %v; %d orders", code, err, len(orders))
	}
}

// TestDiffOfUnreadable checks that an unreadable file does not hide the others.
func TestDiffOfUnreadable(t *testing.T) {
	list := layered(t, "a.txt", "b.txt")
	up := list[0].Layer.Upper()
	must(t, os.Remove(filepath.Join(up, "a.txt")))
	must(t, os.Symlink("b.txt", filepath.Join(up, "a.txt")))
	a, printed := captured(t)
	must(t, a.diffText(list))
	if got := printed(); !strings.Contains(got, "added a.txt: not shown, it cannot be read") || !strings.Contains(got, "+in b.txt") {
		t.Error(got)
	}
}

func TestOverwrite(t *testing.T) {
	list := layered(t, "a.txt")
	f := &applyFlags{overwrite: []string{"a.txt"}}
	over, err := f.overwritten(list)
	must(t, err)
	if !over[list[0]]["a.txt"] {
		t.Errorf("%v", over)
	}
	f.overwrite = append(f.overwrite, "b.txt")
	if _, err := f.overwritten(list); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("a path without a change: %v", err)
	}
}
