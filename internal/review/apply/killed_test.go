package apply

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/failcall"
)

// fateHost and fateInside set up the files for an apply that is killed, or of which a call fails:
// each kind of step, files with other names, and files that the sandbox moved and rewrote.
const (
	fateHost = `mkdir -p dir/sub gone/sub typed mode; echo 1 > file; echo 1 > dir/sub/file; echo 1 > gone/sub/x; echo 1 > gone/y
		echo 1 > typed/x; echo 1 > todir; echo 1 > mode/x; echo 1 > link-a; ln link-a link-b; seq 50 > moved; echo 1 > open; seq 60 80 > dir/other`
	fateInside = `umask 0; echo 2 > file; echo 2 > dir/sub/file; rm -r gone typed todir; echo 2 > typed; mkdir todir; echo 2 > todir/x
		chmod 700 mode; echo 2 > link-a; rm link-b; mv moved dir/moved; seq 100 150 > dir/moved; chmod 664 open; mkdir -p new/deep -m 731
		echo 2 > new/deep/x; echo 2 > new/y; ln -s file to; rm dir/other; mv dir/sub/file dir/sub/name`
	// fateLater changes files in the sandbox after that. An apply must not find anything changed
	// on the host then.
	fateLater = `for f in file dir/sub/name typed todir/x link-a dir/moved open new/deep/x new/y; do echo 3 >> $f; done; chmod 755 mode; echo 3 > again; rm to`
)

// TestFateOfApply kills an apply before each call that changes something, and makes each such
// call fail. It checks that the next command finishes the apply: it leaves no temporary file, all
// remaining changes can be applied, and a file that only the apply changed is never in conflict
// later.
func TestFateOfApply(t *testing.T) {
	if !failcall.Supported {
		t.Skip("system calls cannot be made to fail on this kind of processor")
	}
	every := 15
	if os.Getenv("BOTHY_REVIEW_ROUNDS") != "" {
		every = 1
	}
	points := fate(t, "as it is", func(int) (unix.Errno, bool) { return 0, false })
	t.Logf("%d calls: %v", len(points), points)
	for i := range points {
		if i%every == 0 {
			t.Run(fmt.Sprintf("killed at %d", i), func(t *testing.T) {
				fate(t, fmt.Sprint(points[i]), func(n int) (unix.Errno, bool) { return 0, n == i })
			})
		}
		if i%every == 1%every {
			t.Run(fmt.Sprintf("failed at %d", i), func(t *testing.T) {
				fate(t, fmt.Sprint(points[i]), func(n int) (unix.Errno, bool) {
					if n == i {
						return unix.EIO, false
					}
					return 0, false
				})
			})
		}
	}
}

func fate(t *testing.T, what string, at func(n int) (unix.Errno, bool)) []failcall.Point {
	t.Helper()
	p := fresh(t, nil)
	p.here(fateHost)
	pause()
	must(t, os.RemoveAll(p.w.Layer.RecordFile()))
	p.start()
	pause()
	p.inside(fateInside)
	n := -1
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer out.Close()
	cmd := exec.Command("/proc/self/exe", "apply", p.w.Source, p.w.Layer.Dir, "mounted")
	cmd.Path, err = os.Executable()
	must(t, err)
	cmd.Args[0] = "apply"
	cmd.Args = append(cmd.Args[:1], cmd.Args[2:]...)
	cmd.Env = append(os.Environ(), role+"=apply")
	cmd.Stdout, cmd.Stderr = out, out
	res, err := failcall.Run{
		Programs: []string{"apply"}, Base: filepath.Dir(p.w.Source), Limit: 2 * time.Minute,
		Kill: func(failcall.Point) bool { n++; _, kill := at(n); return kill },
		Fail: func(failcall.Point) unix.Errno { errno, _ := at(n); return errno },
	}.Of(cmd)
	must(t, err)
	if res.TimedOut {
		t.Fatal("it hangs")
	}
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := os.ReadFile(out.Name())
			t.Logf("this was %s; it said %s", what, said)
		}
	})
	must(t, Recover(p.w))
	noTemps(t, p)
	if _, err := os.Lstat(p.w.Layer.IntentFile()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the intent: %v", err)
	}
	for round := 1; len(p.changes()) > 0; round++ {
		for path, r := range p.apply(p.changes(), false) {
			if r != Applied && (r != "" || round > 1) {
				t.Errorf("%s: %q", path, r)
			}
		}
		if round == 3 {
			t.Fatalf("still there is\n%s", summary(p.changes()))
		}
	}
	p.inside(fateLater)
	for _, c := range p.changes() {
		if c.Conflict != "" {
			t.Errorf("%s: %s", c.Path, c.Conflict)
		}
	}
	for path, r := range p.apply(p.changes(), true) {
		if r != Applied {
			t.Errorf("in the end %s: %s", path, r)
		}
	}
	p.wants("\n")
	if now := p.here("cat dir/moved typed todir/x link-a new/deep/x again | tr -d '\\n'; ls -R | grep -c . "); !strings.HasPrefix(now, "100") {
		t.Errorf("the host has %s", now)
	}
	return res.Points
}
