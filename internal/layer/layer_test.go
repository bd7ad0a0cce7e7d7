package layer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/sums"
)

// role is set when this binary is started again as another process.
const role = "BOTHY_TEST_LAYER_ROLE"

// Save adds a save and removes the previous one.
func (s Store) Save(write func(dir string) error) (int64, error) {
	size, tidy, err := s.Add(write)
	if err == nil {
		tidy()
	}
	return size, err
}

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "save":
		err = saveForEver(Store{os.Args[1]})
	case "full":
		err = saveOnFullDisk(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func again(t *testing.T, r, dir string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", dir)
	cmd.Env = append(os.Environ(), role+"="+r)
	cmd.Stderr = os.Stderr
	return cmd
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writing makes a save of two files that must agree.
func writing(n int) func(string) error {
	return func(dir string) error {
		for _, name := range []string{"meta", "data"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat(fmt.Sprint(n)+"\n", 100)), 0o600); err != nil {
				return err
			}
		}
		return nil
	}
}

// reading returns the number of the newest save: 0 if there is none, -1 if it is partial.
func reading(t *testing.T, s Store) int {
	t.Helper()
	dir, err := s.Current()
	must(t, err)
	if dir == "" {
		return 0
	}
	meta, err := os.ReadFile(filepath.Join(dir, "meta"))
	must(t, err)
	data, err := os.ReadFile(filepath.Join(dir, "data"))
	must(t, err)
	var n int
	_, _ = fmt.Sscan(string(meta), &n)
	if !bytes.Equal(meta, data) || string(meta) != strings.Repeat(fmt.Sprint(n)+"\n", 100) {
		return -1
	}
	return n
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestSave(t *testing.T) {
	s := Store{t.TempDir()}
	if dir, err := s.Current(); dir != "" || err != nil {
		t.Errorf("nothing saved, but %q, %v", dir, err)
	}
	if dir, err := (Store{filepath.Join(s.Dir, "none")}).Current(); dir != "" || err != nil {
		t.Errorf("no directory, but %q, %v", dir, err)
	}
	for n := 1; n <= 12; n++ { // 9 to 10: not in alphabetical order
		size, err := s.Save(writing(n))
		must(t, err)
		sum, err := os.Stat(filepath.Join(s.pathOf(savePrefix, n), sums.Name))
		must(t, err)
		if want := int64(2*100*len(fmt.Sprint(n)+"\n")) + sum.Size(); size != want {
			t.Errorf("save %d takes %d bytes, want %d", n, size, want)
		}
		if got := reading(t, s); got != n {
			t.Errorf("after save %d the newest is %d", n, got)
		}
	}
	if left := names(t, s.Dir); !slices.Equal(left, []string{"root-12"}) {
		t.Errorf("there are %q", left)
	}
}

// TestFailedSave checks that a save that fails at any point leaves the previous one, and nothing else.
func TestFailedSave(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name  string
		write func(dir string) error
		want  error
	}{
		{"before anything", func(string) error { return boom }, boom},
		{"after one file", func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "meta"), nil, 0o600), boom)
		}, boom},
		{"no space", func(dir string) error {
			f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.Write([]byte("x"))
			return err
		}, unix.ENOSPC},
		{"its directory vanished", func(dir string) error { return os.RemoveAll(dir) }, os.ErrNotExist},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Store{t.TempDir()}
			_, err := s.Save(writing(1))
			must(t, err)
			if _, err := s.Save(tt.write); !errors.Is(err, tt.want) {
				t.Errorf("it ended with %v, want %v", err, tt.want)
			}
			if got := reading(t, s); got != 1 {
				t.Errorf("the newest is %d", got)
			}
			if left := names(t, s.Dir); !slices.Equal(left, []string{"root-1"}) {
				t.Errorf("there are %q", left)
			}
			_, err = s.Save(writing(2))
			must(t, err)
			if got := reading(t, s); got != 2 {
				t.Errorf("the next is %d", got)
			}
		})
	}
}

// TestCrashLeftovers checks that the newest complete save counts, whatever a crash left
// next to it.
func TestCrashLeftovers(t *testing.T) {
	s := Store{t.TempDir()}
	_, err := s.Save(writing(1))
	must(t, err)
	_, err = s.Save(writing(2))
	must(t, err)
	for _, d := range []string{"root-1", ".root-3", ".root-9", ".root-"} {
		must(t, os.MkdirAll(filepath.Join(s.Dir, d, "sub"), 0o700))
		must(t, os.WriteFile(filepath.Join(s.Dir, d, "meta"), []byte("half"), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(s.Dir, "overlay"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(s.Dir, "runsc-filestore-1"), nil, 0o600))
	if got := reading(t, s); got != 2 {
		t.Errorf("the newest is %d", got)
	}
	must(t, s.Sweep())
	if left := names(t, s.Dir); !slices.Equal(left, []string{"overlay", "root-2"}) {
		t.Errorf("there are %q", left)
	}
	must(t, s.Sweep())

	must(t, os.MkdirAll(filepath.Join(s.Dir, ".root-3", "junk"), 0o700))
	_, err = s.Save(writing(3)) // over the leftover of its own number
	must(t, err)
	if got := reading(t, s); got != 3 {
		t.Errorf("the newest is %d", got)
	}
	if got := names(t, filepath.Join(s.Dir, "root-3")); !slices.Equal(got, []string{"data", "meta", sums.Name}) {
		t.Errorf("in it are %q", got)
	}
}

// TestOddNames checks that other names are not taken for a save, and not swept like one in use.
func TestOddNames(t *testing.T) {
	s := Store{t.TempDir()}
	for _, d := range []string{"root-x", "root-", "root-0", "root--1", "root", "xroot-5", "root-99999999999999999999"} {
		must(t, os.Mkdir(filepath.Join(s.Dir, d), 0o700))
	}
	if dir, err := s.Current(); dir != "" || err != nil {
		t.Errorf("the newest is %q, %v", dir, err)
	}
	_, err := s.Save(writing(1))
	must(t, err)
	if got := reading(t, s); got != 1 {
		t.Errorf("the newest is %d", got)
	}
}

func saveForEver(s Store) error {
	last := 0
	if dir, err := s.Current(); err == nil && dir != "" {
		b, err := os.ReadFile(filepath.Join(dir, "meta"))
		if err != nil {
			return err
		}
		_, _ = fmt.Sscan(string(b), &last)
	}
	for n := last + 1; ; n++ {
		if _, err := s.Save(writing(n)); err != nil {
			return err
		}
		fmt.Println(n) // acknowledged
	}
}

// TestSaveSurvivesKill checks that after a kill at any point the newest save is whole and not
// older than the last acknowledged one, and that the next sweep leaves nothing else.
func TestSaveSurvivesKill(t *testing.T) {
	s := Store{t.TempDir()}
	for round := range 15 {
		cmd := again(t, "save", s.Dir)
		var out bytes.Buffer
		cmd.Stdout = &out
		must(t, cmd.Start())
		time.Sleep(time.Duration(10+5*round) * time.Millisecond)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		acked := 0
		if lines := strings.Fields(out.String()); len(lines) > 0 {
			_, _ = fmt.Sscan(lines[len(lines)-1], &acked)
		}
		if got := reading(t, s); got < acked {
			t.Fatalf("round %d: save %d was acknowledged, %d is the newest", round, acked, got)
		}
		if round%2 == 1 {
			must(t, s.Sweep())
			if left := names(t, s.Dir); len(left) > 1 {
				t.Fatalf("round %d: there are %q", round, left)
			}
		}
	}
}

func saveOnFullDisk(dir string) error {
	if err := unix.Mount("full", dir, "tmpfs", 0, "size=128k"); err != nil {
		fmt.Println("mount:", err)
		return nil
	}
	s := Store{dir}
	if _, err := s.Save(writing(1)); err != nil {
		return err
	}
	_, err := s.Save(func(dir string) error { return os.WriteFile(filepath.Join(dir, "data"), make([]byte, 1<<20), 0o600) })
	if !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("a megabyte on 128 KiB: %w", err)
	}
	if dir, err := s.Current(); err != nil || filepath.Base(dir) != "root-1" {
		return fmt.Errorf("the newest is %s, %w", dir, err)
	}
	if _, err := s.Save(writing(2)); err != nil { // the space is free again
		return err
	}
	return nil
}

func TestSaveOnFullDisk(t *testing.T) {
	cmd := again(t, "full", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	out, err := cmd.Output()
	must(t, err)
	if len(out) > 0 {
		t.Skipf("no mount namespace here: %s", out)
	}
}
