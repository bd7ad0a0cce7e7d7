package drivertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/spec"
)

// remember saves the memory of a wall whose init counts what it hears, and has
// others go on from there.
func (s Subject) remember(t *testing.T, dir string) {
	steps := []struct {
		name string
		run  func(t *testing.T, dir string)
	}{
		{"save", s.saveMemory},
		{"again", func(t *testing.T, dir string) { s.goOn(t, dir, "0a0b0c0d0e0f", "test") }},
		{"elsewhere", func(t *testing.T, dir string) { s.goOn(t, dir, "1a1b1c1d1e1f", "other") }},
		{"build", s.otherBuild},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) { s.step(t, dir, step.run) })
	}
}

// counting builds a wall whose init says how often it was spoken to.
func (s Subject) counting(t *testing.T, dir, id string, change func(*driver.Machine)) (*bench, error) {
	t.Helper()
	m := s.Machine(t, dir, id)
	m.Init = []string{"/bin/sh", "-c", fmt.Sprintf("n=0; echo kept > /opt/kept; while read -r line <&%d; do n=$((n+1)); echo \"$n $line\" >&%d; done", driver.InitFD, driver.InitFD)}
	change(&m)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	w, err := s.Driver.Start(ctx, m)
	if err != nil {
		return nil, err
	}
	t.Cleanup(w.Destroy)
	return &bench{w, m, s}, nil
}

// say speaks to init, and wants an answer.
func (b *bench) say(t *testing.T, text, want string) {
	t.Helper()
	if err := b.Control().SetDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(b.Control(), text); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(b.Control()).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != want {
		t.Fatalf("init says %q, %v; want %q", line, err, want)
	}
}

func memoryOf(dir string) string { return filepath.Join(dir, "memory") }

func (s Subject) saveMemory(t *testing.T, dir string) {
	b, err := s.counting(t, dir, "0a0b0c0d0e0f", func(*driver.Machine) {})
	if err != nil {
		t.Fatal(err)
	}
	b.say(t, "a", "1 a")
	b.say(t, "b", "2 b")
	b.run(t, "exec sleep 4321")
	within(t, "a process", func() bool { return slices.ContainsFunc(b.table(t), isSleep) })
	if err := os.Mkdir(memoryOf(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := b.PrepareMemory(ctx, memoryOf(dir)); err != nil {
		t.Fatal(err)
	}
	resume, err := b.Pause(ctx)
	if err != nil {
		t.Fatal(err)
	}
	err = b.SaveMemory(ctx, memoryOf(dir))
	layer := filepath.Join(dir, "layer-of-memory")
	if lerr := os.Mkdir(layer, 0o700); err == nil && lerr == nil {
		err = b.SaveRoot(ctx, layer) // both of one moment
	}
	resume()
	if err == nil {
		err = driver.SumMemory(memoryOf(dir))
	}
	if err != nil {
		t.Fatal(err)
	}
	b.say(t, "c", "3 c")
	if !slices.ContainsFunc(b.table(t), isSleep) {
		t.Error("a process did not live through it")
	}
	entries, err := os.ReadDir(memoryOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
}

func isSleep(k driver.Task) bool { return k.Command == "sleep" }

// goOn wants the state of the moment of the save, in a sandbox of another name.
func (s Subject) goOn(t *testing.T, dir, id, hostname string) {
	b, err := s.counting(t, dir, id, func(m *driver.Machine) { m.Memory, m.Hostname = memoryOf(dir), hostname })
	if err != nil {
		t.Fatal(err)
	}
	b.say(t, "x", "3 x")
	b.say(t, "y", "4 y")
	within(t, "what was started by exec to be gone", func() bool { return !slices.ContainsFunc(b.table(t), isSleep) })
	if out := b.exec(t, b.process("cat /opt/kept; uname -n"), ""); out.stdout != "kept\n"+hostname+"\n" {
		t.Errorf("%+v", out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	resume, err := b.Pause(ctx)
	if err != nil {
		t.Fatal(err)
	}
	resume()
	b.say(t, "z", "5 z")
}

// otherBuild wants memory of another build refused, with nothing left behind.
func (s Subject) otherBuild(t *testing.T, dir string) {
	file := filepath.Join(memoryOf(dir), "build")
	id, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, "x"+string(id), 0o600)
	_, err = s.counting(t, dir, "0a0b0c0d0e0f", func(m *driver.Machine) { m.Memory = memoryOf(dir) })
	if !errors.Is(err, spec.ErrConflict) {
		t.Errorf("memory of another build: %v", err)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
