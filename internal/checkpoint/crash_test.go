package checkpoint

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// role is set where this binary is started again as a process to be killed.
const role = "BOTHY_TEST_CHECKPOINT_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		if err := work(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const crashFiles = 30

// work makes checkpoints and restores them forever. All files of one state have the same number in them.
func work(top string) error {
	s := Shelf{filepath.Join(top, "checkpoints")}
	sources := []Source{{Name: "home", Dir: filepath.Join(top, "home")}}
	lock, err := s.Lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if back, err := s.Interrupted(); err != nil {
		return err
	} else if back != nil {
		if _, err := s.Restore(back.Point, sources, func() error { return nil }); err != nil {
			return err
		}
	}
	for {
		n := rand.IntN(1_000_000)
		if err := writeAll(sources[0].Dir, n); err != nil {
			return err
		}
		m, err := s.Begin("at-"+strconv.Itoa(n), "test")
		if errors.Is(err, spec.ErrConflict) {
			continue // the same number was drawn twice
		}
		if err != nil {
			return err
		}
		p, err := m.End(errors.Join(m.Warm(sources), m.Take(sources)))
		if err != nil {
			return err
		}
		fmt.Println(p.Name)
		list, err := s.List()
		if err != nil {
			return err
		}
		if len(list) > 4 {
			if err := s.Remove(list[rand.IntN(len(list))]); err != nil {
				return err
			}
		}
		if list, err = s.List(); err != nil {
			return err
		}
		if _, err := s.Restore(list[rand.IntN(len(list))], sources, func() error { return nil }); err != nil {
			return err
		}
	}
}

func writeAll(dir string, n int) error {
	for i := range crashFiles {
		path := filepath.Join(dir, fmt.Sprintf("d%d/%d", i%3, i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(strconv.Itoa(n)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// stands checks that all files of a directory have the state of a checkpoint, by its name.
func stands(t *testing.T, dir, name string) {
	t.Helper()
	for i := range crashFiles {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("d%d/%d", i%3, i)))
		if err != nil || "at-"+string(b) != name {
			t.Fatalf("file %d of %s: %q, %v", i, name, b, err)
		}
	}
}

// TestSurvivesKill checks that after a kill at any point every checkpoint is whole and every
// acknowledged one exists, and that the next command finishes a restore.
func TestSurvivesKill(t *testing.T) {
	top := t.TempDir()
	must(t, os.Mkdir(filepath.Join(top, "home"), 0o755))
	s := Shelf{filepath.Join(top, "checkpoints")}
	interrupted := 0
	for round := range 25 {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", top)
		cmd.Env = append(os.Environ(), role+"=work")
		var out, failed strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &failed
		must(t, cmd.Start())
		time.Sleep(time.Duration(20+rand.IntN(150)) * time.Millisecond) // anywhere
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		if failed.Len() > 0 {
			t.Fatalf("round %d: %s", round, failed.String())
		}
		list, err := s.List()
		must(t, err)
		if said := strings.Fields(out.String()); len(said) > 0 && len(list) == 0 {
			t.Fatalf("round %d: %q were made, and none is there", round, said)
		}
		for _, p := range list {
			to := filepath.Join(t.TempDir(), "to")
			must(t, s.Fill(p, []Source{{Name: "home", Dir: to}}))
			stands(t, to, p.Name)
		}
		back, err := s.Interrupted()
		must(t, err)
		if back != nil {
			interrupted++
			sources := []Source{{Name: "home", Dir: filepath.Join(top, "home")}}
			_, err := s.Restore(back.Point, sources, func() error { return nil })
			must(t, err)
			stands(t, sources[0].Dir, back.Point.Name)
			if left, err := filepath.Glob(filepath.Join(sources[0].Dir, "*", tempPrefix+"*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		}
	}
	t.Logf("%d times on the way back", interrupted)
}

// onSmall names the directory on which TestFullDisk, running in its own namespaces, may mount a small
// file system.
const onSmall = "BOTHY_TEST_CHECKPOINT_SMALL"

// TestFullDisk checks that a full disk gives a clear error, and damages nothing.
func TestFullDisk(t *testing.T) {
	if top := os.Getenv(onSmall); top != "" {
		must(t, unix.Mount("small", top, "tmpfs", 0, "size=1m"))
		keepsOnFullDisk(t, top)
		return
	}
	again := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestFullDisk$", "-test.v")
	again.Env = append(os.Environ(), onSmall+"="+t.TempDir())
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestFullDisk") {
		t.Errorf("%v\n%s", err, out)
	}
}

func keepsOnFullDisk(t *testing.T, top string) {
	t.Helper()
	b := &box{t, filepath.Join(t.TempDir(), "home"), Shelf{filepath.Join(top, "checkpoints")}}
	must(t, os.Mkdir(b.dir, 0o755))
	lock, err := b.Lock()
	must(t, err)
	defer lock.Unlock()
	b.write("small", "one")
	b.settle()
	one := b.keep("one")
	b.write("large", strings.Repeat("x", 2<<20))
	m, err := b.Begin("two", "")
	must(t, err)
	if _, err := m.End(m.Take(b.sources())); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("%v", err)
	}
	b.back(one)
	if _, err := os.Lstat(b.path("large")); err == nil {
		t.Error("it did not go back")
	}
	must(t, os.WriteFile(b.path("small"), []byte("two"), 0o644))
	b.settle()
	b.keep("three") // there is room again
}
