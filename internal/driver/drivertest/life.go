package drivertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// destroy checks that Destroy can be called several times, also concurrently, and leaves no process.
func destroy(t *testing.T, b *bench) {
	r := b.run(t, "trap '' TERM HUP INT; (trap '' TERM HUP INT; sleep 1000 & sleep 1000) & sleep 1000")
	pids := b.pids(t)
	ended := make(chan struct{})
	go func() { _, _ = r.Wait(); close(ended) }()
	var all sync.WaitGroup
	for range 3 {
		all.Go(b.Destroy)
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(deadline):
		t.Fatal("Destroy does not return")
	}
	b.Destroy()
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

// afterwards checks that a destroyed wall answers every request with an error.
func afterwards(t *testing.T, b *bench) {
	b.Destroy()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
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
	if err := ctx.Err(); err != nil {
		t.Errorf("the errors are those of the caller: %v", err)
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
	b.run(t, "x=$(head -c 80000000 /dev/zero | tr '\\0' x); sleep 1000; echo $x")
	within(t, "80 MB more", func() bool {
		now, err := b.Memory(ctx)
		return err == nil && now > before+30<<20 // the earlier memory may have shrunk
	})
}

// killed kills one process of the wall, and checks that the wall is down and tells why.
func killed(t *testing.T, b *bench, i int) {
	pids := b.pids(t)
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

// neighbour runs next to another wall with nearly the same id.
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
