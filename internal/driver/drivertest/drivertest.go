// Package drivertest is what every driver has to pass. A driver's own tests
// call Run with a Subject; a bug found in one driver becomes a case here.
package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/spec"
)

// Subject is a driver under test.
type Subject struct {
	Driver driver.Driver
	// Machine prepares a machine in dir, with a root in which /bin/sh and the
	// usual small programs work, a directory /opt in the root layer that
	// anybody may write to, and dir/project mounted at /project. The suite sets Init.
	Machine func(t *testing.T, dir, id string) driver.Machine
	// Process runs a step where Start may be called, which it may be once per
	// process. The step's own name is the test's. Steps share nothing but dir.
	// Nil runs it here.
	Process func(t *testing.T, dir string, step func(t *testing.T))
	// CaseDir gives the directory of a case. Nil is a temporary one.
	CaseDir func(t *testing.T) string
	// Owners says that there are several users behind the wall: root, and
	// files of others.
	Owners bool
	// Network says that a machine may have a network card.
	Network bool
	// Isolated says that programs see only their own wall's processes.
	Isolated bool
}

// deadline bounds every single wait of the suite.
const deadline = 30 * time.Second

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	cases := []struct {
		name string
		run  func(t *testing.T, b *bench)
	}{
		{"exit", exits},
		{"missing", missing},
		{"streams", streams},
		{"surroundings", surroundings},
		{"control", control},
		{"tasks", tasks},
		{"signal", signals},
		{"workspace", workspace},
		{"destroy", destroy},
		{"afterwards", afterwards},
		{"memory", memory},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s.step(t, s.dir(t), func(t *testing.T, dir string) { c.run(t, s.start(t, dir, "0a0b0c0d0e0f", "")) })
		})
	}
	t.Run("killed", func(t *testing.T) {
		// One step for each process that a wall may have; a wall with fewer
		// has fewer to lose.
		for i := range 2 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				s.step(t, s.dir(t), func(t *testing.T, dir string) { killed(t, s.start(t, dir, "0a0b0c0d0e0f", ""), i) })
			})
		}
	})
	t.Run("refusals", func(t *testing.T) {
		s.step(t, s.dir(t), func(t *testing.T, dir string) { refusals(t, s, dir) })
	})
	if s.Network {
		t.Run("network", func(t *testing.T) {
			s.step(t, s.dir(t), func(t *testing.T, dir string) { network(t, s, dir) })
		})
	}
	t.Run("layer", func(t *testing.T) {
		dir := s.dir(t)
		t.Run("save", func(t *testing.T) { s.step(t, dir, func(t *testing.T, dir string) { save(t, s, dir) }) })
		t.Run("restore", func(t *testing.T) { s.step(t, dir, func(t *testing.T, dir string) { restore(t, s, dir) }) })
	})
	t.Run("neighbours", func(t *testing.T) {
		dir := s.dir(t)
		// Two ids of which the longer part is the same.
		for _, id := range []string{"aaaaaaaaaaa1", "aaaaaaaaaaa2"} {
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				s.step(t, dir, func(t *testing.T, dir string) { neighbour(t, s, dir, id) })
			})
		}
	})
}

func (s Subject) dir(t *testing.T) string {
	if s.CaseDir != nil {
		return s.CaseDir(t)
	}
	return t.TempDir()
}

func (s Subject) step(t *testing.T, dir string, f func(t *testing.T, dir string)) {
	t.Helper()
	step := func(t *testing.T) {
		// What the wall is made of dies with the thread that made it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f(t, dir)
	}
	if s.Process == nil {
		step(t)
		return
	}
	s.Process(t, dir, step)
}

// bench is a running wall and how to use it.
type bench struct {
	driver.Wall
	m driver.Machine
	s Subject
}

// start builds a wall whose init repeats what it hears on its socket.
func (s Subject) start(t *testing.T, dir, id, layer string) *bench {
	t.Helper()
	m := s.Machine(t, dir, id)
	m.Restore = layer
	m.Init = []string{"/bin/sh", "-c", fmt.Sprintf("while read -r line <&%d; do echo \"heard $line\" >&%d; done; exec sleep 100000", driver.InitFD, driver.InitFD)}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	w, err := s.Driver.Start(ctx, m)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(w.Destroy)
	return &bench{w, m, s}
}

// process is a shell script as the caller.
func (b *bench) process(script string) driver.Process {
	return driver.Process{
		Args: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/",
		UID: b.m.UID, GID: b.m.GID,
	}
}

// output is what a process left.
type output struct {
	stdout, stderr string
	exit           driver.Exit
}

// exec runs a process to its end.
func (b *bench) exec(t *testing.T, p driver.Process, stdin string) output {
	t.Helper()
	out, err := b.try(t, p, stdin)
	if err != nil {
		t.Fatalf("exec %q: %v", p.Args, err)
	}
	return out
}

func (b *bench) try(t *testing.T, p driver.Process, stdin string) (output, error) {
	t.Helper()
	var ours [3]*os.File
	for i, theirs := range []**os.File{&p.Stdin, &p.Stdout, &p.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			*theirs, ours[i] = r, w
		} else {
			*theirs, ours[i] = w, r
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	r, err := b.Exec(ctx, p)
	for _, f := range []*os.File{p.Stdin, p.Stdout, p.Stderr} {
		f.Close()
	}
	if err != nil {
		for _, f := range ours {
			f.Close()
		}
		return output{}, err
	}
	var out output
	var bufs [2]bytes.Buffer
	done := make(chan struct{}, 3)
	go func() { _, _ = io.WriteString(ours[0], stdin); ours[0].Close(); done <- struct{}{} }()
	for i, f := range ours[1:] {
		go func() { _, _ = io.Copy(&bufs[i], f); f.Close(); done <- struct{}{} }()
	}
	ended := make(chan error, 1)
	go func() {
		var err error
		out.exit, err = r.Wait()
		ended <- err
	}()
	limit := time.After(deadline)
	for range 3 {
		select {
		case <-done:
		case <-limit:
			t.Fatalf("%q: the streams do not end", p.Args)
		}
	}
	select {
	case err = <-ended:
	case <-limit:
		t.Fatalf("%q: it does not end", p.Args)
	}
	out.stdout, out.stderr = bufs[0].String(), bufs[1].String()
	return out, err
}

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
	// The wall is none the worse for it.
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
	// A reader that has enough.
	if out := b.exec(t, b.process("head -c 3; true"), big); out.stdout != "012" {
		t.Errorf("head: %+v", out)
	}
	// Many at once.
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

// run starts a process and leaves it running.
func (b *bench) run(t *testing.T, script string) driver.Running {
	t.Helper()
	p := b.process(script)
	null, err := os.OpenFile(filepath.Join(t.TempDir(), "null"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p.Stdin, p.Stdout, p.Stderr = null, null, null
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	r, err := b.Exec(ctx, p)
	if err != nil {
		t.Fatalf("exec: %v", err)
	}
	return r
}

func (b *bench) table(t *testing.T) []driver.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	list, err := b.Tasks(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return list
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

func wait(t *testing.T, r driver.Running) (driver.Exit, error) {
	t.Helper()
	type end struct {
		e   driver.Exit
		err error
	}
	ch := make(chan end, 1)
	go func() { e, err := r.Wait(); ch <- end{e, err} }()
	select {
	case got := <-ch:
		return got.e, got.err
	case <-time.After(deadline):
		t.Fatal("it does not end")
	}
	return driver.Exit{}, nil
}

func workspace(t *testing.T, b *bench) {
	work := b.m.Mounts[0].Source
	write(t, filepath.Join(work, "from-host"), "host", 0o644)
	if out := b.exec(t, b.process("cat /project/from-host; printf inside > /project/from-inside"), ""); out.stdout != "host" {
		t.Errorf("%+v", out)
	}
	if got, err := os.ReadFile(filepath.Join(work, "from-inside")); err != nil || string(got) != "inside" {
		t.Errorf("%q %v", got, err)
	}
	info, err := os.Stat(filepath.Join(work, "from-inside"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != os.Geteuid() {
		t.Errorf("the file belongs to %d", st.Uid)
	}
}

// destroy is called several times, also at once, and leaves no process.
func destroy(t *testing.T, b *bench) {
	r := b.run(t, "trap '' TERM HUP INT; (trap '' TERM HUP INT; sleep 1000 & sleep 1000) & sleep 1000")
	pids := b.Pids()
	if len(pids) == 0 {
		t.Fatal("the wall has no processes")
	}
	ended := make(chan struct{})
	go func() { _, _ = r.Wait(); close(ended) }()
	began := time.Now()
	done := make(chan struct{}, 3)
	for range cap(done) {
		go func() { b.Destroy(); done <- struct{}{} }()
	}
	for range cap(done) {
		<-done
	}
	b.Destroy()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	closed(t, b.Done())
	if err := b.Err(); err != nil {
		t.Errorf("after Destroy, Err is %v", err)
	}
	select {
	case <-ended:
	case <-time.After(deadline):
		t.Error("Wait does not return after Destroy")
	}
	for _, pid := range pids {
		within(t, fmt.Sprintf("process %d to go", pid), func() bool { return syscall.Kill(pid, 0) != nil })
	}
	within(t, "all children to go", func() bool { return len(children(t)) == 0 })
}

// afterwards a wall answers every request, with an error.
func afterwards(t *testing.T, b *bench) {
	b.Destroy()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	began := time.Now()
	p := b.process("true")
	if _, err := b.try(t, p, ""); err == nil {
		t.Error("exec behind a wall that is gone")
	}
	if _, err := b.Tasks(ctx); err == nil {
		t.Error("tasks behind a wall that is gone")
	}
	if err := b.Signal(ctx, 1, 9); err == nil {
		t.Error("signal behind a wall that is gone")
	}
	dir := t.TempDir()
	if err := b.SaveRoot(ctx, dir); err == nil {
		t.Error("saved the layer of a wall that is gone")
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the errors took %v", took)
	}
}

func memory(t *testing.T, b *bench) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var before int64
	within(t, "any memory", func() (ok bool) {
		var err error
		before, err = b.Memory(ctx)
		return err == nil && before > 0
	})
	b.run(t, "x=$(head -c 40000000 /dev/zero | tr '\\0' x); sleep 1000; echo $x")
	within(t, "40 MB more", func() bool {
		now, err := b.Memory(ctx)
		return err == nil && now > before+30<<20
	})
}

// killed takes one process of the wall away: the wall is down and says why.
func killed(t *testing.T, b *bench, i int) {
	pids := b.Pids()
	if i >= len(pids) {
		t.Skipf("this wall has %d processes", len(pids))
	}
	select {
	case <-b.Done():
		t.Fatal("it is down from the start")
	default:
	}
	if err := b.Err(); err != nil {
		t.Fatalf("Err of a standing wall: %v", err)
	}
	r := b.run(t, "sleep 1000")
	if err := syscall.Kill(pids[i], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	closed(t, b.Done())
	if err := b.Err(); err == nil {
		t.Error("nothing says why it fell")
	}
	if _, err := wait(t, r); err == nil && b.s.Isolated {
		t.Log("the process behind it ended as if by itself")
	}
	b.Destroy()
	within(t, "all children to go", func() bool { return len(children(t)) == 0 })
}

func refusals(t *testing.T, s Subject, dir string) {
	m := s.Machine(t, dir, "0a0b0c0d0e0f")
	m.Init = []string{"/bin/sh", "-c", "sleep 1000"}
	for _, root := range []string{"/", "//", "/.", "/usr/.."} {
		m.Root = root
		w, err := s.Driver.Start(t.Context(), m)
		if err == nil {
			w.Destroy()
			t.Errorf("started on the root %q", root)
		}
	}
	if left := children(t); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// script of the layer's steps; $1 of root's part needs owners.
func save(t *testing.T, s Subject, dir string) {
	b := s.start(t, dir, "0a0b0c0d0e0f", "")
	p := b.process("echo kept > kept && echo gone > gone && rm gone && mkdir -p d/e && echo deep > d/e/f && ln -s kept link && chmod 750 d")
	p.Dir = "/opt"
	if out := b.exec(t, p, ""); out.exit.Code != 0 {
		t.Fatalf("%+v", out)
	}
	if s.Owners {
		root := b.process("chown 5:7 /opt/kept && rm /opt/below && echo root > /opt/of-root && chmod 600 /opt/of-root")
		root.UID, root.GID = 0, 0
		if out := b.exec(t, root, ""); out.exit.Code != 0 {
			t.Fatalf("%+v", out)
		}
	}
	layer := filepath.Join(dir, "layer")
	if err := os.Mkdir(layer, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := b.SaveRoot(ctx, layer); err != nil {
		t.Fatalf("save: %v", err)
	}
	if entries, err := os.ReadDir(layer); err != nil || len(entries) == 0 {
		t.Errorf("the layer is empty: %v", err)
	}
	// It goes on, and what comes later is not in the layer.
	p = b.process("cat kept; echo late > late")
	p.Dir = "/opt"
	if s.Owners {
		p.UID, p.GID = 0, 0
	}
	if out := b.exec(t, p, ""); out.stdout != "kept\n" {
		t.Errorf("after the save: %+v", out)
	}
	// The root itself is never written to.
	if _, err := os.Lstat(filepath.Join(b.m.Root, "opt", "kept")); err == nil {
		t.Error("the layer was written into the root")
	}
	if _, err := os.Lstat(filepath.Join(b.m.Root, "opt", "below")); err != nil {
		t.Error("a file of the root was removed")
	}
}

func restore(t *testing.T, s Subject, dir string) {
	if _, err := os.Lstat(filepath.Join(dir, "layer")); err != nil {
		t.Skip("nothing was saved")
	}
	b := s.start(t, dir, "0a0b0c0d0e0f", filepath.Join(dir, "layer"))
	p := b.process("cat kept d/e/f; readlink link; stat -c %a d; ls gone late 2>/dev/null; true")
	p.Dir = "/opt"
	if s.Owners {
		p.Args[2] += "; stat -c %u:%g kept; cat of-root; stat -c %u:%a of-root; ls below 2>/dev/null; true"
		p.UID, p.GID = 0, 0
	}
	want := "kept\ndeep\nkept\n750\n"
	if s.Owners {
		want += "5:7\nroot\n0:600\n"
	}
	if out := b.exec(t, p, ""); out.stdout != want {
		t.Errorf("restored %q, want %q (%s)", out.stdout, want, out.stderr)
	}
}

// neighbour runs beside another wall with nearly the same id.
func neighbour(t *testing.T, s Subject, dir, id string) {
	b := s.start(t, filepath.Join(dir, id), id, "")
	p := b.process("echo " + id + " > mine; cat mine")
	p.Dir = "/opt"
	if out := b.exec(t, p, ""); out.stdout != id+"\n" {
		t.Errorf("%+v", out)
	}
	write(t, filepath.Join(dir, "up-"+id), "", 0o600)
	other := map[string]string{"aaaaaaaaaaa1": "aaaaaaaaaaa2", "aaaaaaaaaaa2": "aaaaaaaaaaa1"}[id]
	within(t, "the other wall", func() bool { _, err := os.Lstat(filepath.Join(dir, "up-"+other)); return err == nil })
	if list := b.table(t); s.Isolated && len(list) != 1 {
		t.Errorf("%s sees processes of the other: %+v", id, list)
	}
	if id == "aaaaaaaaaaa1" {
		b.Destroy()
		write(t, filepath.Join(dir, "down-"+id), "", 0o600)
		return
	}
	within(t, "the other wall's end", func() bool { _, err := os.Lstat(filepath.Join(dir, "down-"+other)); return err == nil })
	p = b.process("cat mine")
	p.Dir = "/opt"
	if out := b.exec(t, p, ""); out.stdout != id+"\n" {
		t.Errorf("after the end of the other: %+v", out)
	}
}

func closed(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(deadline):
		t.Fatal("the wall does not notice its end")
	}
}

func within(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if cond() {
			return
		}
	}
	t.Errorf("waited in vain for %s", what)
}

// children lists the living processes below this one.
func children(t *testing.T) []string {
	t.Helper()
	var list []string
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tasks {
		b, _ := os.ReadFile(f)
		for pid := range strings.FieldsSeq(string(b)) {
			comm, err := os.ReadFile("/proc/" + pid + "/comm")
			stat, serr := os.ReadFile("/proc/" + pid + "/stat")
			if err != nil || serr != nil || strings.Contains(string(stat), ") Z ") {
				continue
			}
			list = append(list, pid+" "+strings.TrimSpace(string(comm)))
		}
	}
	return list
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
