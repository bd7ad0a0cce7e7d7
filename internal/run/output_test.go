package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// printed prints text in an iteration, as an agent would, and returns the files.
func printed(t *testing.T, r *Run, iteration int, stdout, stderr string) (string, string) {
	t.Helper()
	o, err := r.Output(iteration)
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitAfterSeq(stdout, "\n") {
		fmt.Fprint(o.Stdout, part)
	}
	fmt.Fprint(o.Stderr, stderr)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	out, errs, err := r.Printed(iteration)
	if err != nil {
		t.Fatal(err)
	}
	return out, errs
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOutput checks that each try's output is kept in files of its own.
func TestOutput(t *testing.T) {
	r := &Run{ID: "x", dir: t.TempDir()}
	if _, _, err := r.Printed(1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before anything was printed: %v", err)
	}
	printed(t, r, 11, "eleven\n", "")
	printed(t, r, 1, "first\n", "trouble\n")
	out, errs := printed(t, r, 1, "second\n", "")
	if got := read(t, out); got != "second\n" {
		t.Errorf("the last try printed %q", got)
	}
	if _, err := os.Stat(errs); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it said nothing on standard error: %v", err)
	}
	names, _ := filepath.Glob(filepath.Join(r.dir, "logs", "*"))
	if len(names) != 4 {
		t.Errorf("there are %q", names)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestOutputBounded checks that the middle of too much output is left out, and its size noted.
func TestOutputBounded(t *testing.T) {
	r := &Run{ID: "x", dir: t.TempDir()}
	line := strings.Repeat("x", 1023) + "\n"
	all := "first\n" + strings.Repeat(line, 20<<10) + "last\n"
	out, _ := printed(t, r, 1, all, "")
	got := read(t, out)
	left := len(all) - maxBegin - maxEnd
	if want := fmt.Sprintf("\n... %d bytes are left out here ...\n", left); got != all[:maxBegin]+want+all[len(all)-maxEnd:] {
		t.Errorf("of %d bytes it is %d, %d of them x", len(all), len(got), bytes.Count([]byte(got), []byte("x")))
	}
	whole := strings.Repeat(line, (maxBegin+maxEnd)>>10)
	out, _ = printed(t, r, 2, whole, "")
	if read(t, out) != whole {
		t.Error("what there is room for is not as it was")
	}
}

// TestOutputRoom checks that the oldest output is deleted first, and never the newest.
func TestOutputRoom(t *testing.T) {
	dir := t.TempDir()
	for i := range 4 {
		name := filepath.Join(dir, fmt.Sprint(i))
		at := time.Date(2026, 11, 22, i, 0, 0, 0, time.UTC)
		if err := errors.Join(os.WriteFile(name, make([]byte, 10), 0o600), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct {
		most int64
		left string
	}{{40, "0123"}, {25, "03"}, {5, "0"}} {
		if err := makeRoom(dir, want.most, func(name string) bool { return name == "0" }); err != nil {
			t.Fatal(err)
		}
		entries, _ := os.ReadDir(dir)
		got := ""
		for _, e := range entries {
			got += e.Name()
		}
		if got != want.left {
			t.Errorf("in %d bytes there are %s, not %s", want.most, got, want.left)
		}
	}
}

// TestOutputAtWork checks that the output of a running try stays, and that no try gets the number
// of one whose files were partly removed.
func TestOutputAtWork(t *testing.T) {
	r := &Run{ID: "x", dir: t.TempDir()}
	quiet, err := r.Output(1)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(quiet.Stdout, "begun\n")
	past := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(quiet.Stdout.path, past, past); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(r.dir, logsName, "9.1.log")
	if err := errors.Join(os.WriteFile(full, nil, 0o600), os.Truncate(full, maxLogs)); err != nil {
		t.Fatal(err)
	}
	first, _ := printed(t, r, 2, "first\n", "trouble\n")
	if err := os.Remove(first); err != nil { // as making room does
		t.Fatal(err)
	}
	out, errs := printed(t, r, 2, "second\n", "")
	if _, err := os.Stat(errs); read(t, out) != "second\n" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is beside what an earlier try said: %v", out, err)
	}
	fmt.Fprint(quiet.Stdout, "ended\n")
	if err := quiet.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, quiet.Stdout.path); got != "begun\nended\n" {
		t.Errorf("it printed %q", got)
	}
}
