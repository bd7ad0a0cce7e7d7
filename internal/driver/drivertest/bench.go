package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/driver"
)

// bench is a running wall with helpers.
type bench struct {
	driver.Wall
	m driver.Machine
	s Subject
}

// start builds a wall whose init echoes every line from its socket.
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

// process returns a shell script that runs as the caller.
func (b *bench) process(script string) driver.Process {
	return driver.Process{
		Args: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/",
		UID: b.m.UID, GID: b.m.GID,
	}
}

// output is the output of a process, and its exit.
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

// pids returns the wall's processes on this host; none if the wall is elsewhere.
func (b *bench) pids(t *testing.T) []int {
	t.Helper()
	local, ok := b.Wall.(driver.Local)
	if !ok {
		return nil
	}
	pids := local.Pids()
	if len(pids) == 0 {
		t.Fatal("the wall has no processes")
	}
	return pids
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
