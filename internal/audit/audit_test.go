package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/bothy-dev/bothy/internal/term"
)

func logPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "events.jsonl")
}

func openLog(t *testing.T, path string, limit int64) *Log {
	t.Helper()
	l, err := Open(path, Options{MaxBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// number writes events, each with a number.
func number(t *testing.T, l *Log, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		if err := l.Write("test.number", map[string]any{"n": n}); err != nil {
			t.Fatal(err)
		}
	}
}

// numbers reads the numbers of events.
func numbers(t *testing.T, path string) []int {
	t.Helper()
	var all []int
	err := Read(path, func(e Event) error {
		if n, ok := e.Fields["n"].(float64); ok {
			all = append(all, int(n))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// mustCount fails unless all are the numbers from … to-1.
func mustCount(t *testing.T, all []int, from, to int) {
	t.Helper()
	for i, n := range all {
		if n != from+i {
			t.Fatalf("number %d is %d, want %d", i, n, from+i)
		}
	}
	if len(all) != to-from {
		t.Fatalf("%d numbers, want %d", len(all), to-from)
	}
}

func TestWriteAndRead(t *testing.T) {
	path := logPath(t)
	l := openLog(t, path, 0)
	before := time.Now()
	err := l.Write("network.denied", map[string]any{"host": "a<b>&\u202e\u009b\x1b\x7f", "port": 443, "rule": nil})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Write("plain", nil); err != nil {
		t.Fatal(err)
	}
	var all []Event
	if err := Read(path, func(e Event) error { all = append(all, e); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Kind != "network.denied" || all[1].Kind != "plain" || len(all[1].Fields) != 0 {
		t.Fatalf("got %+v", all)
	}
	e := all[0]
	if e.Time.Before(before.Truncate(0)) || e.Time.After(time.Now()) || e.Time.Location() != time.UTC {
		t.Errorf("time is %v", e.Time)
	}
	if e.Fields["host"] != "a<b>&\u202e\u009b\x1b\x7f" || e.Fields["port"] != 443.0 || len(e.Fields) != 3 {
		t.Errorf("fields are %#v", e.Fields)
	}
	if want := `"event":"network.denied","host":"a<b>&\u202e\u009b\u001b\u007f","port":443,"rule":null}`; !strings.HasSuffix(string(e.Line), want) {
		t.Errorf("line is %s, want it to end with %s", e.Line, want)
	}
	var typed struct {
		Event string
		Time  time.Time
		Port  int
	}
	if err := e.Decode(&typed); err != nil || typed.Port != 443 || typed.Event != "network.denied" || !typed.Time.Equal(e.Time) {
		t.Errorf("Decode gives %+v, %v", typed, err)
	}
}

func TestWriteRefuses(t *testing.T) {
	path := logPath(t)
	l := openLog(t, path, 0)
	for name, fields := range map[string]map[string]any{
		"time": {"time": 1}, "event": {"event": "x"}, "channel": {"c": make(chan int)}, "NaN": {"x": math.NaN()},
	} {
		if err := l.Write("bad", fields); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	number(t, l, 0, 1)
	mustCount(t, numbers(t, path), 0, 1)
	l.Close()
	if err := l.Write("late", nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestOversizeEvent(t *testing.T) {
	path := logPath(t)
	l := openLog(t, path, 0)
	number(t, l, 0, 1)
	if err := l.Write("big", map[string]any{"x": strings.Repeat("x", maxEvent)}); err == nil {
		t.Error("no error")
	}
	number(t, l, 1, 2)
	var sizes []any
	err := Read(path, func(e Event) error {
		if e.Kind == "big" {
			sizes = append(sizes, e.Fields["oversize"])
		}
		return nil
	})
	if err != nil || len(sizes) != 1 || sizes[0].(float64) <= maxEvent {
		t.Errorf("sizes = %v, %v", sizes, err)
	}
	mustCount(t, numbers(t, path), 0, 2)
}

func TestFilesArePrivate(t *testing.T) {
	path := logPath(t)
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	l := openLog(t, path, 200)
	number(t, l, 0, 10)
	for _, p := range []string{path, oldPath(path)} {
		info, err := os.Stat(p)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", p, info.Mode(), err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link, filepath.Join(dir, "missing", "log"), os.DevNull} {
		if l, err := Open(path, Options{}); err == nil {
			l.Close()
			t.Errorf("Open(%s) gave no error", path)
		}
	}
}

func TestRotation(t *testing.T) {
	const limit = 2000
	path := logPath(t)
	l := openLog(t, path, limit)
	number(t, l, 0, 500)
	for _, p := range []string{path, oldPath(path)} {
		info, err := os.Stat(p)
		if err != nil || info.Size() > limit || info.Size() == 0 {
			t.Errorf("%s: %d bytes, %v", p, info.Size(), err)
		}
	}
	all := numbers(t, path)
	if len(all) < 20 {
		t.Fatalf("only %d events are left", len(all))
	}
	mustCount(t, all, all[0], 500)
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 2 {
		t.Errorf("there are %d files, %v", len(left), err)
	}
}

// TestCrashInRotation simulates a crash between the rename and the new file.
func TestCrashInRotation(t *testing.T) {
	path := logPath(t)
	l := openLog(t, path, 0)
	number(t, l, 0, 5)
	l.Close()
	if err := os.Rename(path, oldPath(path)); err != nil {
		t.Fatal(err)
	}
	mustCount(t, numbers(t, path), 0, 5)
	l = openLog(t, path, 0)
	number(t, l, 5, 8)
	mustCount(t, numbers(t, path), 0, 8)
}

func TestRemovedFile(t *testing.T) {
	path := logPath(t)
	l := openLog(t, path, 1000)
	number(t, l, 0, 3)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	number(t, l, 3, 30) // somewhere here it is full
	all := numbers(t, path)
	mustCount(t, all, all[0], 30)
}

func TestTornLine(t *testing.T) {
	path := logPath(t)
	l := openLog(t, path, 0)
	number(t, l, 0, 3)
	l.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Count(whole, []byte{'\n'})
	for cut := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		kept := bytes.Count(whole[:cut], []byte{'\n'})
		if kept < lines && cut > 0 && whole[cut] == '\n' { // only the line end is missing
			kept++
		}
		mustCount(t, numbers(t, path), 0, kept)
		l := openLog(t, path, 0)
		number(t, l, kept, kept+2)
		l.Close()
		mustCount(t, numbers(t, path), 0, kept+2)
	}
}

func TestGarbageIsLeftOut(t *testing.T) {
	path := logPath(t)
	garbage := "\x00\x00\x00\nnull\n[]\n{}\n\n{\"event\":\"x\"}\n{\"time\":\"x\",\"event\":\"x\"}\n" + strings.Repeat("y", 3*maxEvent) + "\n"
	if err := os.WriteFile(path, []byte(garbage), 0o600); err != nil {
		t.Fatal(err)
	}
	l := openLog(t, path, 0)
	number(t, l, 0, 2)
	count := 0
	if err := Read(path, func(Event) error { count++; return nil }); err != nil || count != 2 {
		t.Errorf("%d events, %v", count, err)
	}
}

func TestReadErrors(t *testing.T) {
	path := logPath(t)
	if err := Read(path, func(Event) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a log: %v", err)
	}
	number(t, openLog(t, path, 0), 0, 3)
	enough := errors.New("enough")
	calls := 0
	err := Read(path, func(Event) error { calls++; return enough })
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("after %d calls: %v", calls, err)
	}
}

// TestReadWhileRotating checks that the reader gets each event once and in order, whatever happens
// between two reads, as long as it is at most a file behind.
func TestReadWhileRotating(t *testing.T) {
	path := logPath(t)
	l := openLog(t, path, 1000)
	number(t, l, 0, 15) // an old file, and a new one
	old := numbers(t, path)
	next := 15
	var all []int
	err := Read(path, func(e Event) error {
		all = append(all, int(e.Fields["n"].(float64)))
		if next < 60 {
			number(t, l, next, next+1)
			next++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustCount(t, all, old[0], 60)
}

func TestConcurrentWriters(t *testing.T) {
	const writers, each = 8, 300
	path := logPath(t)
	l := openLog(t, path, 0)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := range each {
				if err := l.Write("test", map[string]any{"writer": w, "n": n}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	next := map[any]float64{}
	err := Read(path, func(e Event) error {
		w := e.Fields["writer"]
		if e.Fields["n"] != next[w] {
			return fmt.Errorf("writer %v: got %v, want %v", w, e.Fields["n"], next[w])
		}
		next[w]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for w := range writers {
		if next[float64(w)] != each {
			t.Errorf("writer %d: %v events", w, next[float64(w)])
		}
	}
}

// TestInvisible checks that the log escapes every character that a viewer of the log escapes.
func TestInvisible(t *testing.T) {
	for r := rune(0x7f); r <= unicode.MaxRune; r++ {
		if term.Hides('a', r) && !isInvisible(r) {
			t.Errorf("%U is written as it is", r)
		}
	}
	for _, r := range "é日😀ی" {
		if isInvisible(r) {
			t.Errorf("%U is not", r)
		}
	}
}

// FuzzEvent checks that any event is one line without anything that a terminal would act on, and
// reads back unchanged.
func FuzzEvent(f *testing.F) {
	f.Add("kind", "key", "value\n\x1b[31m\u009b\u202e\u2028\u200b\U000e0041<&>")
	f.Add("\xff", "\x00", "\ufffd\xc2")
	f.Fuzz(func(t *testing.T, kind, key, value string) {
		if key == "time" || key == "event" {
			return
		}
		line, err := encode(time.Now(), kind, map[string]any{key: value})
		if err != nil {
			t.Fatal(err)
		}
		body, found := bytes.CutSuffix(line, []byte{'\n'})
		if !found {
			t.Fatalf("%q has no line end", line)
		}
		for _, r := range string(body) {
			if r < 0x20 || isInvisible(r) {
				t.Fatalf("%q holds %U", line, r)
			}
		}
		e, ok := decode(line)
		if !ok {
			t.Fatalf("%q cannot be read", line)
		}
		if e.Kind != valid(kind) || e.Fields[valid(key)] != valid(value) || len(e.Fields) != 1 {
			t.Fatalf("%q, %q=%q became %+v", kind, key, value, e)
		}
	})
}

// valid returns s as encoding/json takes it.
func valid(s string) string {
	var out string
	b, _ := json.Marshal(s)
	_ = json.Unmarshal(b, &out)
	return out
}
