package record

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/review/beneath"
)

// remembered returns a layer whose record has the names of a new directory.
func remembered(t *testing.T, files map[string]string) (Layer, *Record, *beneath.Dir) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for name, text := range files {
		must(t, os.MkdirAll(filepath.Join(base, "host", filepath.Dir(name)), 0o700))
		must(t, os.WriteFile(filepath.Join(base, "host", name), []byte(text), 0o600))
	}
	l := Layer{Dir: base}
	must(t, l.Write(&Record{Version: 1, Since: time.Now().Add(time.Hour).UnixNano()}))
	r, err := l.Read()
	must(t, err)
	host, err := beneath.OpenTop(filepath.Join(base, "host"))
	must(t, err)
	t.Cleanup(host.Close)
	must(t, l.Remember(r, host, MaxDirs, MaxNames))
	return l, r, host
}

// TestRecordDrop checks that a dropped path is not written, and that dropping takes no time that
// grows with the record.
func TestRecordDrop(t *testing.T) {
	l := Layer{Dir: t.TempDir()}
	r, err := l.Read()
	must(t, err)
	const count = 60000
	for i := range count {
		r.Set(strconv.Itoa(i), State{Gone: true})
	}
	began := time.Now()
	for i := range count - 1 {
		r.Drop(strconv.Itoa(i))
	}
	r.Set("new", State{Gone: true})
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	must(t, l.Write(r))
	if r, err = l.Read(); err != nil || len(r.Paths) != 2 {
		t.Fatalf("%d are left, %v", len(r.Paths), err)
	}
	for _, path := range []string{strconv.Itoa(count - 1), "new"} {
		if k, ok := r.Find(path); !ok || !k.Gone {
			t.Errorf("%s is lost", path)
		}
	}
}

// TestNamesAreBounded checks that the list of names is bounded, and that names beyond the limit
// are unknown.
func TestNamesAreBounded(t *testing.T) {
	l, r, host := remembered(t, map[string]string{"a": "1\n", "d/a": "1\n", "d/b": "1\n", "d/c": "1\n", "d/e/f": "1\n"})
	whole, err := os.ReadFile(l.NamesFile())
	must(t, err)
	count := strings.Count(string(whole), "\x00") - 1 // without the first line
	count -= strings.Count(string(whole), "\x00"+string(rune(stateOf)))
	if _, err := parseNames(whole, count); err != nil {
		t.Error(err)
	}
	if _, err := parseNames(whole, count-1); err == nil {
		t.Error("more names are read than may be")
	}
	if _, err := parseNames(append(whole, make([]byte, maxNamesFile)...), MaxNames); err == nil || !strings.Contains(err.Error(), "large") {
		t.Errorf("a file that is too large: %v", err)
	}
	must(t, os.Remove(l.NamesFile()))
	must(t, l.Remember(r, host, MaxDirs, 5)) // the top, its entries, the directory and one of its entries
	n, err := l.ReadNames()
	must(t, err)
	known := 0
	for _, name := range []string{"a", "b", "c", "e"} {
		switch n.Had("d/" + name) {
		case Present:
			known++
		case Absent:
			t.Errorf("d/%s was not there, it says", name)
		}
	}
	for at, want := range map[string]Answer{"a": Present, "d": Present, "none": Absent, "d/none": Unknown, "d/e/f": Unknown} {
		if got := n.Had(at); got != want {
			t.Errorf("of %q it is known %v, want %v", at, got, want)
		}
	}
	if known != 1 {
		t.Errorf("%d names of the directory are known, want 1", known)
	}
}

// TestNamesRemembered checks that unusual names are found again, and that a path below a file is
// absent.
func TestNamesRemembered(t *testing.T) {
	odd := "a\nb \xff"
	l, _, _ := remembered(t, map[string]string{"d/" + odd: "1\n", "file": "1\n"})
	n, err := l.ReadNames()
	must(t, err)
	for at, want := range map[string]Answer{
		"d": Present, "d/" + odd: Present, "file": Present, "d/none": Absent, "none/at/all": Absent, "file/in": Absent,
	} {
		if got := n.Had(at); got != want {
			t.Errorf("of %q it is known %v, want %v", at, got, want)
		}
	}
}

// TestWhoseNames checks that namesSince does not read the names, because every start calls it.
func TestWhoseNames(t *testing.T) {
	files := map[string]string{}
	for i := range 2000 {
		files[fmt.Sprintf("d/%d", i)] = ""
	}
	l, r, host := remembered(t, files)
	if n := testing.AllocsPerRun(1, func() { l.Remembers(r) }); n > 200 {
		t.Errorf("%.0f allocations with 2000 names", n)
	}
	since, err := l.namesSince()
	if err != nil || since != r.Since {
		t.Errorf("%d, %v, of %d", since, err, r.Since)
	}
	for _, head := range []string{"", namesHeader, namesHeader + "12", namesHeader + "x\x00", "bothy names 2 12\x00", namesHeader + "123456789012345678901\x00"} {
		must(t, os.WriteFile(l.NamesFile(), []byte(head), 0o600))
		if since, err := l.namesSince(); err == nil {
			t.Errorf("%q is of %d", head, since)
		}
		must(t, l.Remember(r, host, MaxDirs, MaxNames)) // again
		if since, err := l.namesSince(); err != nil || since != r.Since {
			t.Errorf("%q stays: %d, %v", head, since, err)
		}
	}
}
