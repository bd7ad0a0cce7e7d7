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
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/spec"
)

// remember saves the memory of a wall whose init counts the lines that it hears, and makes other
// walls continue from it.
func (s Subject) remember(t *testing.T, dir string) {
	steps := []struct {
		name string
		run  func(t *testing.T, dir string)
	}{
		{"save", s.saveMemory},
		{"again", func(t *testing.T, dir string) { s.goOn(t, dir, "0a0b0c0d0e0f", "test") }},
		{"fork", func(t *testing.T, dir string) { s.goOn(t, dir, "1a1b1c1d1e1f", "other") }},
		{"removed meanwhile", s.removedMeanwhile},
		{"saved meanwhile", s.savedMeanwhile},
		{"from that", s.goOnFromSecond},
		{"build", s.otherBuild},
		{"broken off", s.brokenOff},
	}
	for _, step := range steps {
		if step.name == "fork" && !s.Capabilities.Fork {
			continue
		}
		t.Run(step.name, func(t *testing.T) { s.step(t, dir, step.run) })
	}
	files, err := os.ReadDir(memoryOf(dir)) // also in the process of a step
	if err != nil || len(files) < 3 {
		t.Fatalf("an image of %d files, %v", len(files), err)
	}
	for _, f := range files {
		t.Run("spoilt "+f.Name(), func(t *testing.T) {
			s.step(t, dir, func(t *testing.T, dir string) { s.spoilt(t, dir, f.Name()) })
		})
	}
}

// thisBuild is the build of all images of the suite.
const thisBuild = "the build under test"

// counting builds a wall whose init reports how many lines it has heard.
func (s Subject) counting(t *testing.T, dir, id string, change func(*driver.Machine)) (*bench, error) {
	t.Helper()
	m := s.Machine(t, dir, id)
	m.Init = []string{"/bin/sh", "-c", fmt.Sprintf("trap '' XFSZ; n=0; echo kept > /opt/kept; head -c 50331648 /dev/urandom > /tmp/held; cksum < /tmp/held > /tmp/sum; while read -r line <&%d; do n=$((n+1)); echo \"$n $line\" >&%d; done", driver.InitFD, driver.InitFD)}
	m.Build = thisBuild
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

// say sends a line to init, and checks the answer.
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
		err = b.SaveRoot(ctx, layer) // both at the same time
	}
	resume()
	if err == nil {
		err = driver.SumMemory(memoryOf(dir), thisBuild)
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

// holds checks that the memory of programs is unchanged.
func (b *bench) holds(t *testing.T) {
	t.Helper()
	if out := b.exec(t, b.process("cksum < /tmp/held | cmp - /tmp/sum"), ""); out.stdout+out.stderr != "" || out.exit.Code != 0 {
		t.Errorf("the memory has changed: %+v", out)
	}
}

// copyMemory copies a saved image to a directory of its own.
func copyMemory(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// removedMeanwhile makes programs continue from an image that is removed at once.
func (s Subject) removedMeanwhile(t *testing.T, dir string) {
	gone := filepath.Join(dir, "gone")
	copyMemory(t, memoryOf(dir), gone)
	b, err := s.counting(t, dir, "0a0b0c0d0e0f", func(m *driver.Machine) { m.Memory = gone })
	if rerr := os.RemoveAll(gone); err != nil || rerr != nil {
		t.Fatal(err, rerr)
	}
	b.say(t, "x", "3 x")
	b.holds(t)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := b.Settle(ctx); err != nil {
		t.Error(err)
	}
}

// savedMeanwhile saves memory that is still being loaded.
func (s Subject) savedMeanwhile(t *testing.T, dir string) {
	b, err := s.counting(t, dir, "0a0b0c0d0e0f", func(m *driver.Machine) { m.Memory = memoryOf(dir) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	resume, err := b.Pause(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err = os.Mkdir(secondOf(dir), 0o700); err == nil {
		err = b.SaveMemory(ctx, secondOf(dir)) // nothing was prepared
	}
	resume()
	if err == nil {
		err = driver.SumMemory(secondOf(dir), thisBuild)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.say(t, "x", "3 x")
	b.holds(t)
}

// brokenOff cancels a save of the memory. It checks that the next save contains more, and that the
// inside was not affected.
func (s Subject) brokenOff(t *testing.T, dir string) {
	b, err := s.counting(t, dir, "0a0b0c0d0e0f", func(*driver.Machine) {})
	if err != nil {
		t.Fatal(err)
	}
	b.say(t, "a", "1 a")
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	resume, err := b.Pause(ctx)
	if err != nil {
		t.Fatal(err)
	}
	half, whole := filepath.Join(dir, "half"), filepath.Join(dir, "whole")
	within(t, "a save that ends before it is done", func() bool {
		err := b.saveUntil(ctx, t, half, func() bool { return sizeOf(half) > 0 })
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		return err != nil // else the save was complete before
	})
	then := sizeOf(half)
	if err := b.saveUntil(ctx, t, whole, func() bool { return false }); err != nil {
		t.Fatal(err)
	}
	resume()
	if now, all := sizeOf(half), sizeOf(whole); now != then || now >= all {
		t.Errorf("the one that was broken off had %d bytes then and has %d; the other has %d", then, now, all)
	}
	b.say(t, "b", "2 b")
	b.holds(t)
}

// saveUntil saves memory to a new directory, and cancels the save when enough returns true.
func (b *bench) saveUntil(ctx context.Context, t *testing.T, dir string, enough func() bool) error {
	t.Helper()
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for ctx.Err() == nil && !enough() {
			time.Sleep(time.Millisecond)
		}
		cancel()
	})
	defer watch.Wait()
	defer cancel()
	return b.SaveMemory(ctx, dir)
}

// sizeOf returns the size of all files of a directory.
func sizeOf(dir string) (n int64) {
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

func secondOf(dir string) string { return filepath.Join(dir, "second") }

// goOnFromSecond checks that an image saved during loading contains all of the memory.
func (s Subject) goOnFromSecond(t *testing.T, dir string) {
	b, err := s.counting(t, dir, "1a1b1c1d1e1f", func(m *driver.Machine) { m.Memory = secondOf(dir) })
	if err != nil {
		t.Fatal(err)
	}
	b.say(t, "y", "3 y")
	b.holds(t)
}

// spoilt changes one bit in one file of an image. It checks that the image is refused, or that the
// wall falls when it reads that bit: programs must never continue with wrong data.
func (s Subject) spoilt(t *testing.T, dir, name string) {
	copied := filepath.Join(dir, "copied")
	copyMemory(t, memoryOf(dir), copied)
	data, err := os.ReadFile(filepath.Join(copied, name))
	if err != nil || len(data) == 0 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	data[len(data)/2] ^= 1
	write(t, filepath.Join(copied, name), string(data), 0o600)
	b, err := s.counting(t, dir, "0a0b0c0d0e0f", func(m *driver.Machine) { m.Memory = copied })
	if err == nil {
		select {
		case <-b.Done():
		case <-time.After(deadline):
			t.Fatal("it goes on")
		}
		err = b.Err()
		b.Destroy()
	}
	if err == nil || !strings.Contains(err.Error(), "changed after it was written") && !errors.Is(err, spec.ErrConflict) {
		t.Errorf("the error is %v", err)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// goOn checks that a sandbox with another name has the state of the moment of the save.
func (s Subject) goOn(t *testing.T, dir, id, hostname string) {
	b, err := s.counting(t, dir, id, func(m *driver.Machine) { m.Memory, m.Hostname = memoryOf(dir), hostname })
	if err != nil {
		t.Fatal(err)
	}
	b.say(t, "x", "3 x")
	b.say(t, "y", "4 y")
	within(t, "processes of exec to be gone", func() bool { return !slices.ContainsFunc(b.table(t), isSleep) })
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

// otherBuild checks that memory of another build is refused, and that nothing is left behind.
func (s Subject) otherBuild(t *testing.T, dir string) {
	file := filepath.Join(memoryOf(dir), "build")
	id, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, "x"+string(id), 0o600)
	defer write(t, file, string(id), 0o600)
	_, err = s.counting(t, dir, "0a0b0c0d0e0f", func(m *driver.Machine) { m.Memory = memoryOf(dir) })
	if !errors.Is(err, spec.ErrConflict) {
		t.Errorf("memory of another build: %v", err)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
