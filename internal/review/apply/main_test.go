package apply

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/hardlinks"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/record"
)

// role is set where this binary is started again: to change files through an overlay in its own
// namespaces, as a sandbox does, or to be killed.
const role = "BOTHY_TEST_REVIEW_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "inside":
		if err := playInside(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "apply":
		if err := playApply(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "discard":
		if err := playDiscard(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// playInside mounts the overlay as a keeper does, and runs a script in it.
func playInside(args []string) error {
	source, layer, script := args[0], record.Layer{Dir: args[1]}, args[2]
	at := filepath.Join(layer.Dir, "merged")
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	options := "userxattr,index=off,xino=off,lowerdir=" + source + ",upperdir=" + layer.Upper() + ",workdir=" + layer.Work()
	if err := unix.Mount("overlay", at, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount the overlay: %w", err)
	}
	w := review.Workspace{Source: source, Layer: layer}
	if n, ok := strings.CutPrefix(script, cutOnly); ok {
		return playCut(w, at, n)
	}
	if err := hardlinks.Cut(w, source, at); err != nil {
		return err
	}
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = at
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	os.Stdout.Write(out)
	return nil
}

// cutOnly begins a script; it gives the number of links that are cut before the time is up.
const cutOnly = "#cut "

func playCut(w review.Workspace, at, n string) error {
	most, err := strconv.Atoi(n)
	if err != nil {
		return err
	}
	err = hardlinks.CutUntil(w, w.Source, at, func() bool { most--; return most < 0 })
	fmt.Println(err)
	return nil
}

func again(t testing.TB, r string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), role+"="+r)
	return cmd
}

// project is a directory of the host with a layer over it.
type project struct {
	t testing.TB
	w review.Workspace
}

func newProject(t testing.TB, files map[string]string) *project {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	p := &project{t, review.Workspace{Source: filepath.Join(base, "host"), Layer: record.Layer{Dir: filepath.Join(base, "layer")}}}
	must(t, os.MkdirAll(p.w.Source, 0o755))
	must(t, os.MkdirAll(p.w.Layer.Dir, 0o755))
	for name, text := range files {
		p.put(name, text)
	}
	p.start()
	t.Cleanup(func() { exec.Command("chmod", "-R", "u+rwx", base).Run() })
	return p
}

// start does the steps before the layer is mounted.
func (p *project) start() {
	p.t.Helper()
	must(p.t, Settle(p.w))
	must(p.t, p.w.Prepare())
	must(p.t, p.w.Remember())
}

// inside runs a script where the sandbox would.
func (p *project) inside(script string) string {
	p.t.Helper()
	cmd := again(p.t, "inside", p.w.Source, p.w.Layer.Dir, script)
	const innerID = 1000
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: innerID, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: innerID, HostID: os.Getegid(), Size: 1}},
	}
	for c := range 41 {
		cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, uintptr(c))
	}
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		if strings.Contains(said.String(), "operation not permitted") || strings.Contains(err.Error(), "operation not permitted") {
			p.t.Skipf("no overlay can be mounted here: %v %s", err, said.String())
		}
		p.t.Fatalf("inside: %v: %s", err, said.String())
	}
	return string(out)
}

// here runs a script on the host.
func (p *project) here(script string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "sh", "-ec", script)
	cmd.Dir = p.w.Source
	out, err := cmd.Output()
	must(p.t, err)
	return string(out)
}

func (p *project) path(name string) string { return filepath.Join(p.w.Source, name) }

func (p *project) put(name, text string) {
	p.t.Helper()
	must(p.t, os.MkdirAll(filepath.Dir(p.path(name)), 0o755))
	must(p.t, os.WriteFile(p.path(name), []byte(text), 0o644))
}

func (p *project) get(name string) string {
	p.t.Helper()
	b, err := os.ReadFile(p.path(name))
	if os.IsNotExist(err) {
		return "(none)"
	}
	must(p.t, err)
	return string(b)
}

func (p *project) changes() []review.Change {
	p.t.Helper()
	list, err := p.w.Changes()
	must(p.t, err)
	return list
}

// summary returns one line for each change.
func summary(list []review.Change) string {
	var b strings.Builder
	for _, c := range list {
		if c.Implied {
			continue
		}
		fmt.Fprintf(&b, "%s %s", c.Kind, quote.Path(c.Path))
		if c.From != "" {
			fmt.Fprintf(&b, " from %s", quote.Path(c.From))
		}
		if c.Conflict != "" {
			b.WriteString(" CONFLICT")
		}
		if c.Refused != "" {
			b.WriteString(" REFUSED")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (p *project) wants(want string) []review.Change {
	p.t.Helper()
	list := p.changes()
	if got := summary(list); got != strings.TrimLeft(want, "\n") {
		p.t.Errorf("changes are\n%swant\n%s", got, want)
		for _, c := range list {
			if c.Conflict+c.Refused != "" {
				p.t.Logf("%s: %s%s", c.Path, c.Conflict, c.Refused)
			}
		}
	}
	return list
}

// apply applies changes as they are, flags or not.
func (p *project) apply(list []review.Change, settled bool) map[string]Result {
	p.t.Helper()
	var orders []Order
	for _, c := range list {
		orders = append(orders, Order{Change: c})
	}
	return p.order(orders, settled)
}

func (p *project) order(orders []Order, settled bool) map[string]Result {
	p.t.Helper()
	done, err := Orders(p.w, orders, settled)
	must(p.t, err)
	got := map[string]Result{}
	for _, o := range done {
		got[o.Path] = o.Result
		if o.Why != "" {
			p.t.Logf("%s %s: %s", o.Result, o.Path, o.Why)
		}
	}
	return got
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
