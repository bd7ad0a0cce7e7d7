package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/spec"
)

func exits(t *testing.T, b *bench) {
	for _, c := range []struct {
		script string
		want   driver.Exit
	}{
		{"exit 0", driver.Exit{}},
		{"exit 7", driver.Exit{Code: 7}},
		{"exit 255", driver.Exit{Code: 255}},
		{"kill -KILL $$", driver.Exit{Signal: 9}},
		{"kill -TERM $$", driver.Exit{Signal: 15}},
		{"kill -SEGV $$", driver.Exit{Signal: 11}},
		{"exec sh -c 'exit 3'", driver.Exit{Code: 3}},
	} {
		if got := b.exec(t, b.process(c.script), ""); got.exit != c.want {
			t.Errorf("%s: %+v, want %+v", c.script, got.exit, c.want)
		}
	}
}

func missing(t *testing.T, b *bench) {
	write(t, filepath.Join(b.m.Mounts[0].Source, "plain"), "not a program\n", 0o644)
	write(t, filepath.Join(b.m.Mounts[0].Source, "garbage"), "\x7fnot a program\x00\n", 0o755)
	write(t, filepath.Join(b.m.Mounts[0].Source, "lost"), "#!/no/such/interpreter\n", 0o755)
	for _, c := range []struct {
		program string
		class   error
	}{
		{"no-such-program", spec.ErrNoSuchBinary},
		{"/no/such/program", spec.ErrNoSuchBinary},
		{"/bin/sh/x", spec.ErrNoSuchBinary},
		{"/project/plain", spec.ErrNotRunnable},
		{"/project/garbage", spec.ErrNotRunnable},
		{"/project", spec.ErrNotRunnable},
		{"/project/lost", spec.ErrNoSuchBinary},
	} {
		p := b.process("")
		p.Args = []string{c.program}
		if out, err := b.try(t, p, ""); !errors.Is(err, c.class) {
			t.Errorf("%s: %v (%+v), want class %v", c.program, err, out, c.class)
		}
	}
	// The wall is unharmed.
	if out := b.exec(t, b.process("echo fine"), ""); out.stdout != "fine\n" {
		t.Errorf("afterwards: %+v", out)
	}
}

func streams(t *testing.T, b *bench) {
	if out := b.exec(t, b.process("echo out; echo err >&2"), ""); out.stdout != "out\n" || out.stderr != "err\n" {
		t.Errorf("the streams are not apart: %+v", out)
	}
	big := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	if out := b.exec(t, b.process("cat"), big); out.stdout != big {
		t.Errorf("cat: %d bytes of %d came back", len(out.stdout), len(big))
	}
	if out := b.exec(t, b.process("cat; echo end"), ""); out.stdout != "end\n" {
		t.Errorf("no end of input: %+v", out)
	}
	// A reader that stops early.
	if out := b.exec(t, b.process("head -c 3; true"), big); out.stdout != "012" {
		t.Errorf("head: %+v", out)
	}
	// Many concurrent processes.
	done := make(chan bool, 16)
	for i := range cap(done) {
		go func() {
			out, err := b.try(t, b.process(fmt.Sprintf("read x; echo $x-%d", i)), "in\n")
			done <- err == nil && out.stdout == fmt.Sprintf("in-%d\n", i)
		}()
	}
	for range cap(done) {
		if !<-done {
			t.Error("one of several processes at once got something else")
		}
	}
}

func surroundings(t *testing.T, b *bench) {
	p := b.process("env; pwd; cat /proc/self/environ | tr '\\0' '\\n' | grep -c SECRET")
	p.Env = append(p.Env, "GIVEN=yes", "WITH=a = b")
	p.Dir = "/project"
	t.Setenv("SECRET", "of the keeper's")
	out := b.exec(t, p, "")
	for _, want := range []string{"GIVEN=yes\n", "WITH=a = b\n", "\n/project\n"} {
		if !strings.Contains(out.stdout, want) && !(want == "\n/project\n" && !b.s.Isolated && strings.Contains(out.stdout, "/project\n")) {
			t.Errorf("%q is missing in %q", want, out.stdout)
		}
	}
	if strings.Contains(out.stdout, "SECRET") {
		t.Errorf("the keeper's environment is inside: %q", out.stdout)
	}
	if uid := strings.TrimSpace(b.exec(t, b.process("id -u; id -g"), "").stdout); uid != fmt.Sprintf("%d\n%d", b.m.UID, b.m.GID) {
		t.Errorf("it runs as %q", uid)
	}
	if b.s.Owners {
		root := b.process("id -u; id -g; id -G")
		root.UID, root.GID, root.Groups = 0, 0, []int{4, 20}
		if got := b.exec(t, root, "").stdout; got != "0\n0\n0 4 20\n" {
			t.Errorf("root is %q", got)
		}
	}
	// A directory that does not exist is an error, and nothing runs.
	p = b.process("echo ran > /project/ran")
	p.Dir = "/no/such/directory"
	if out, err := b.try(t, p, ""); err == nil && out.exit == (driver.Exit{}) {
		t.Error("it ran although its directory does not exist")
	}
	if _, err := os.Lstat(filepath.Join(b.m.Mounts[0].Source, "ran")); err == nil {
		t.Error("it ran all the same")
	}
}

func control(t *testing.T, b *bench) {
	sock := b.Control()
	if _, err := io.WriteString(sock, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if err := sock.SetReadDeadline(time.Now().Add(deadline)); err != nil {
		t.Logf("no deadline: %v", err)
	}
	buf := make([]byte, 100)
	n, err := sock.Read(buf)
	if err != nil || string(buf[:n]) != "heard hello\n" {
		t.Errorf("init answers %q, %v", buf[:n], err)
	}
	if out := b.exec(t, b.process(fmt.Sprintf("echo x >&%d", driver.InitFD)), ""); out.exit.Code == 0 {
		t.Error("another program has init's socket")
	}
}

func tasks(t *testing.T, b *bench) {
	r := b.run(t, "exec sleep 1000")
	within(t, "the process in the table", func() bool {
		return slices.ContainsFunc(b.table(t), func(k driver.Task) bool {
			return k.PID == r.PID() && k.Command == "sleep" && k.UID == b.m.UID
		})
	})
	list := b.table(t)
	if !slices.ContainsFunc(list, func(k driver.Task) bool { return k.PID == 1 }) {
		t.Errorf("init is not in the table: %+v", list)
	}
	if b.s.Isolated && len(list) != 2 {
		t.Errorf("the table has %d lines: %+v", len(list), list)
	}
	if err := r.Signal(int(syscall.SIGKILL)); err != nil {
		t.Error(err)
	}
	if e, err := r.Wait(); err != nil || e.Signal != 9 {
		t.Errorf("%+v %v", e, err)
	}
	within(t, "its line to go", func() bool {
		return !slices.ContainsFunc(b.table(t), func(k driver.Task) bool { return k.PID == r.PID() })
	})
}

func signals(t *testing.T, b *bench) {
	for sig, want := range map[syscall.Signal]driver.Exit{syscall.SIGTERM: {Code: 42}, syscall.SIGINT: {Signal: 2}, syscall.SIGKILL: {Signal: 9}} {
		ready := filepath.Join(b.m.Mounts[0].Source, "ready")
		_ = os.Remove(ready)
		r := b.run(t, "trap 'exit 42' TERM; : > /project/ready; while :; do sleep 0.01; done")
		within(t, "the trap", func() bool { _, err := os.Lstat(ready); return err == nil })
		var err error
		if sig == syscall.SIGINT {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			err = b.Signal(ctx, r.PID(), int(sig))
			cancel()
		} else {
			err = r.Signal(int(sig))
		}
		if err != nil {
			t.Errorf("%v: %v", sig, err)
		}
		e, err := wait(t, r)
		if err != nil || e != want {
			t.Errorf("%v: %+v %v, want %+v", sig, e, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := b.Signal(ctx, 1<<22+12345, 9); err == nil {
		t.Error("a process that does not exist was signalled")
	}
}

// groups checks that a signal to a program also reaches the processes that it started, like a signal of
// a terminal, and no other process.
func groups(t *testing.T, b *bench) {
	other := b.run(t, "exec sleep 1000")
	dir := b.m.Mounts[0].Source
	there := func(name string) func() bool {
		return func() bool { _, err := os.Lstat(filepath.Join(dir, name)); return err == nil }
	}
	r := b.run(t, `trap 'exit 42' TERM
(trap ': > /project/heard; exit' TERM; : > /project/ready; while :; do sleep 0.01; done) &
while :; do wait; done`)
	within(t, "the trap of the child", there("ready"))
	if err := r.Signal(int(syscall.SIGTERM)); err != nil {
		t.Error(err)
	}
	if e, err := wait(t, r); err != nil || e != (driver.Exit{Code: 42}) {
		t.Errorf("the program: %+v %v", e, err)
	}
	within(t, "the child to hear of it", there("heard"))
	if err := other.Signal(int(syscall.SIGKILL)); err != nil {
		t.Error(err)
	}
	if e, err := wait(t, other); err != nil || e != (driver.Exit{Signal: int(syscall.SIGKILL)}) {
		t.Errorf("another program: %+v %v", e, err)
	}
}
