package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
)

// searched checks that, while the agent waits for an answer, the key is nowhere inside, and the
// placeholder is.
func (w *world) searched(t *testing.T) {
	t.Helper()
	w.holds(t, "patience")
	placeholder := strings.TrimSpace(w.Must(t, "exec", box, "printenv", w.cli.variable))
	if !strings.HasPrefix(placeholder, w.cli.prefix) || placeholder == w.key {
		t.Fatalf("inside $%s is %q", w.cli.variable, placeholder)
	}
	w.searchedOutside(t, placeholder) // before the search inside, which has all spellings of the key in its own memory
	w.searchedInside(t, placeholder)
	harness.AbsentInProcesses(t, w.key)
	w.absentInFiles(t)
	for _, args := range [][]string{{"logs", box}, {"logs", "--source", "events", box}, {"logs", "--source", "network", box}, {"logs", "--source", "keeper", box}, {"inspect", box}, {"secret", "audit"}} {
		harness.Absent(t, strings.Join(args, " "), []byte(w.Must(t, args...)), w.key)
	}
}

// absentInFiles searches the files on the host, except for the agents as installed.
func (w *world) absentInFiles(t *testing.T) {
	t.Helper()
	dirs, err := filepath.Glob(w.State + "/*")
	if err != nil || len(dirs) < 3 {
		t.Errorf("the state directory has only %q: %v", dirs, err)
	}
	for _, dir := range append(dirs, w.Home) {
		if filepath.Base(dir) != "agents" {
			harness.AbsentInFiles(t, dir, w.key)
		}
	}
}

// The search finds the placeholder in the memory and the environment of the agent.
var (
	inMemory  = regexp.MustCompile(`FOUND placeholder \(clear\) in memory of (\d\d+) `)
	inEnviron = regexp.MustCompile(`FOUND placeholder \(clear\) in environ of (\d\d+) `)
)

// searchedInside has root inside search.
func (w *world) searchedInside(t *testing.T, placeholder string) {
	t.Helper()
	me := w.Plant(t, w.Work)
	r := w.within(t, "exec", "-u", "root", box, me, "rummage", "key="+veiled(w.key), "placeholder="+veiled(placeholder))
	if r.Code != 0 || strings.Contains(r.Stdout, "FOUND key ") || strings.Contains(r.Stdout, "CANNOT read memory") {
		t.Errorf("inside: %v", r)
	}
	if !inMemory.MatchString(r.Stdout) || !inEnviron.MatchString(r.Stdout) {
		t.Errorf("the search does not even find the placeholder: %v", r)
	}
	if !strings.Contains(r.Stdout, "ABORTED ") || strings.Contains(r.Stdout, "CANNOT abort") {
		t.Errorf("no process with the placeholder was made to dump its core: %v", r)
	}
	t.Logf("cores that were left, and searched: %d", strings.Count(r.Stdout, "CORE "))
	var processes, files, bytes int64
	_, looked, _ := strings.Cut(r.Stdout, "LOOKED ")
	if _, err := fmt.Sscan(looked, &processes, &files, &bytes); err != nil || processes < 2 || files < 50 || bytes < 50<<20 {
		t.Errorf("it did not look at much: %v", r)
	}
	t.Logf("inside, %d processes and %d files were searched, %d MiB, in %v", processes, files, bytes>>20, r.Took)
}

// searchedOutside searches all memory of the sandbox: the memory of every process inside, their pipes
// and memory files, and the files that they read.
func (w *world) searchedOutside(t *testing.T, placeholder string) {
	t.Helper()
	sentry := w.Machine(t, box).Sentry
	looked, found := int64(0), false
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", sentry))
	for _, link := range links {
		if name, _ := os.Readlink(link); !strings.HasPrefix(name, "/memfd:runsc-memory") {
			continue
		}
		f, err := os.Open(link)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		n, err := eachTouched(f, func(data []byte) {
			harness.Absent(t, "the memory of the sandbox", data, w.key)
			found = found || strings.Contains(string(data), placeholder)
		})
		if err != nil {
			t.Error(err)
		}
		looked += n
	}
	switch {
	case len(links) == 0 && os.Geteuid() != 0: // only root may read them
		t.Logf("the sandbox's memory was not searched from outside: process %d shows nothing to us", sentry)
	case looked < 16<<20 || !found:
		t.Errorf("of the sandbox's memory %d bytes were searched; the placeholder was found: %v", looked, found)
	default:
		t.Logf("from outside, %d MiB of memory were searched", looked>>20)
	}
}

// eachTouched passes on the content of a file piece by piece, without its holes. Pieces overlap.
func eachTouched(f *os.File, see func([]byte)) (total int64, err error) {
	const overlap = 4 << 10
	buf := make([]byte, 16<<20)
	for at := int64(0); ; {
		at, err = unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		end, err := unix.Seek(int(f.Fd()), at, unix.SEEK_HOLE)
		if err != nil {
			return total, err
		}
		for at < end {
			n, err := f.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
			if n == 0 {
				return total, fmt.Errorf("read the memory at %d: %w", at, err)
			}
			see(buf[:n])
			total += int64(n)
			at += int64(n)
			if at < end {
				at -= overlap
			}
		}
	}
}
