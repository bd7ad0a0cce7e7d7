package agents

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
)

// veiled encodes a word, so that the search for it does not find itself.
func veiled(word string) string {
	b := []byte(word)
	for i := range b {
		b[i] ^= 0xa5
	}
	return hex.EncodeToString(b)
}

func unveiled(text string) string {
	b, _ := hex.DecodeString(text)
	word, _ := hex.DecodeString(veiled(string(b)))
	return string(word)
}

// rummager looks for words in everything that exists inside.
type rummager struct {
	words map[string]map[string][]byte // by name: the possible spellings of each
	long  int                          // length of the longest spelling
	buf   []byte
	out   io.Writer

	holders          []int // processes with the placeholder in their memory
	processes, files int
	bytes            int64 // that were read and not empty
}

// rummage does what root can do inside. It looks for words in the environment, the arguments and the
// memory of every process, as in a core dump, and in every file. It also makes the processes with the
// placeholder dump their core, and searches those files. The words are given as NAME=VEILED. The word
// named placeholder only proves that the search works, and is not veiled.
func rummage(args []string) int {
	r := newRummager(args)
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range procs {
		r.process(dir)
	}
	for _, pid := range r.holders {
		r.abort(pid)
	}
	r.tree("/")
	fmt.Fprintf(r.out, "LOOKED %d %d %d\n", r.processes, r.files, r.bytes)
	return 0
}

func newRummager(args []string) *rummager {
	r := &rummager{words: map[string]map[string][]byte{}, buf: make([]byte, 1<<20), out: os.Stdout}
	for _, a := range args {
		name, text, _ := strings.Cut(a, "=")
		r.words[name] = harness.Writings(unveiled(text))
		if name == "placeholder" {
			r.words[name] = map[string][]byte{"clear": []byte(unveiled(text))}
		}
		for _, w := range r.words[name] {
			r.long = max(r.long, len(w))
		}
	}
	return r
}

// look reports which words the text contains, and in which spelling.
func (r *rummager) look(where string, from io.Reader) (found map[string]bool) {
	found = map[string]bool{}
	kept := 0
	for {
		n, err := io.ReadFull(from, r.buf[kept:])
		data := r.buf[:kept+n]
		if !empty(data) {
			r.bytes += int64(n)
			r.search(where, data, found)
		}
		if err != nil {
			return found
		}
		kept = copy(r.buf, data[len(data)-r.long:])
	}
}

func (r *rummager) search(where string, data []byte, found map[string]bool) {
	for name, words := range r.words {
		for how, w := range words {
			if !found[name+how] && bytes.Contains(data, w) {
				found[name+how] = true
				fmt.Fprintf(r.out, "FOUND %s (%s) in %s\n", name, how, where)
			}
		}
	}
}

// empty reports whether a piece of memory was never written.
func empty(b []byte) bool {
	return len(b) == 0 || b[0] == 0 && bytes.Equal(b[:len(b)-1], b[1:])
}

func (r *rummager) process(dir string) {
	pid := filepath.Base(dir)
	if pid == strconv.Itoa(os.Getpid()) {
		return
	}
	comm, err := os.ReadFile(dir + "/comm")
	if err != nil {
		return // it is gone
	}
	r.processes++
	of := " of " + pid + " " + strings.TrimSpace(string(comm))
	for _, what := range []string{"environ", "cmdline", "auxv", "maps"} {
		b, err := os.ReadFile(dir + "/" + what)
		if err != nil {
			fmt.Fprintf(r.out, "CANNOT read %s: %v\n", what+of, err)
		}
		r.look(what+of, bytes.NewReader(b))
	}
	r.memory(dir, of)
}

// most is how much of one piece of memory is read. Agents reserve gigabytes. Inside, a process cannot
// find out which pages were touched, and reading one touches it.
const most = 64 << 20

// memory reads the memory of a process.
func (r *rummager) memory(dir, of string) {
	smaps, _ := os.ReadFile(dir + "/smaps")
	mem, err := os.Open(dir + "/mem")
	if err != nil {
		fmt.Fprintf(r.out, "CANNOT read memory%s: %v\n", of, err)
		return
	}
	defer mem.Close()
	var from, to int64
	var perm string
	for line := range strings.Lines(string(smaps)) {
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &perm); n == 3 {
			continue
		}
		touched := 0
		if _, err := fmt.Sscanf(line, "Rss: %d kB", &touched); err == nil && touched > 0 && perm[0] == 'r' {
			found := r.look(fmt.Sprintf("memory%s at %x", of, from), io.NewSectionReader(mem, from, min(to-from, most)))
			if pid, _ := strconv.Atoi(filepath.Base(dir)); found["placeholderclear"] && pid > 1 && !slices.Contains(r.holders, pid) {
				r.holders = append(r.holders, pid)
			}
		}
	}
}

// abort makes a process dump its core, if the system makes core dumps, and waits for its end.
func (r *rummager) abort(pid int) {
	all := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	limit := unix.Prlimit(pid, unix.RLIMIT_CORE, &all, nil)
	if err := unix.Kill(pid, unix.SIGABRT); err != nil {
		fmt.Fprintf(r.out, "CANNOT abort %d: %v\n", pid, err)
		return
	}
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, state, _ := strings.Cut(string(stat), ") "); err != nil || strings.HasPrefix(state, "Z") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Fprintf(r.out, "ABORTED %d (its core may be large: %v)\n", pid, limit == nil)
}

// tree reads every file. Read-only files of the host hold no data of the sandbox.
func (r *rummager) tree(root string) {
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		switch path {
		case "/proc", "/sys", "/usr", "/opt":
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			fmt.Fprintf(r.out, "CANNOT open %s: %v\n", path, err)
			return nil
		}
		defer f.Close()
		r.files++
		if head := make([]byte, 4); strings.HasPrefix(d.Name(), "core") {
			if _, err := f.ReadAt(head, 0); err == nil && string(head) == "\x7fELF" {
				fmt.Fprintf(r.out, "CORE %s\n", path)
			}
		}
		r.look(path, f)
		return nil
	})
}

// TestRummageBites checks that the search can find a word, even across the boundary of two reads.
func TestRummageBites(t *testing.T) {
	const key = "sk-ant-api03-0123456789abcdef"
	r := newRummager([]string{"key=" + veiled(key)})
	r.buf, r.out = r.buf[:256], io.Discard
	for _, text := range []string{key, hex.EncodeToString([]byte(key)), base64.StdEncoding.EncodeToString([]byte("ab" + key + "cd"))} {
		for before := len(r.buf) - len(text) - 1; before <= len(r.buf)+1; before++ {
			if found := r.look("a test", strings.NewReader(strings.Repeat("\x00", before)+text+"\x00")); len(found) == 0 {
				t.Errorf("%q is overlooked behind %d bytes", text, before)
			}
		}
	}
	if strings.Contains(veiled(key), hex.EncodeToString([]byte(key))) || unveiled(veiled(key)) != key {
		t.Error("the veil is none, or cannot be lifted")
	}
}
