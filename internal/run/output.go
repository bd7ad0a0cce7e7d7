package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// logsName is the directory of what was said meanwhile.
const logsName = "logs"

// Bounds of what is kept of what an agent prints, in bytes.
const (
	maxBegin = 2 << 20 // of one stream of one try: its beginning
	maxEnd   = 2 << 20 // and its end
	maxLogs  = 64 << 20
)

// Output is what an agent prints in one try of an iteration: all of it, or its beginning
// and its end, with how much was left out between them. The beginning is in the file at
// once, for whoever looks meanwhile or after a crash.
type Output struct {
	Stdout, Stderr *Log
	logs           string
}

// Ends of the names of the files.
const (
	outSuffix = ".log"
	errSuffix = ".err"
)

// Output has a place in the directory of the run for what is printed in an iteration. Each
// try of one has its own.
func (r *Run) Output(iteration int) (*Output, error) {
	dir := filepath.Join(r.dir, logsName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep what is printed in iteration %d: %w", iteration, err)
	}
	last, err := r.lastTry(iteration)
	if err != nil {
		return nil, fmt.Errorf("keep what is printed in iteration %d: %w", iteration, err)
	}
	for try := last + 1; ; try++ { // a lower number may be free by now, and would be taken for an earlier one
		name := filepath.Join(dir, fmt.Sprintf("%d.%d", iteration, try))
		f, err := os.OpenFile(name+outSuffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("keep what is printed in iteration %d: %w", iteration, err)
		}
		printing.Store(name, true)
		o := &Output{Stdout: &Log{path: name + outSuffix, f: f}, Stderr: &Log{path: name + errSuffix}, logs: dir}
		return o, nil
	}
}

// Close ends it, and makes room: what is kept of a run in all is bounded, and the oldest
// goes first.
func (o *Output) Close() error {
	err := errors.Join(o.Stdout.close(), o.Stderr.close())
	err = errors.Join(err, makeRoom(o.logs, maxLogs, func(name string) bool {
		_, ok := printing.Load(filepath.Join(o.logs, strings.TrimSuffix(name, filepath.Ext(name))))
		return ok
	}))
	printing.Delete(strings.TrimSuffix(o.Stdout.path, outSuffix))
	return err
}

// printing has the paths, without the ends of their names, to which this process still writes:
// several workers may.
var printing sync.Map

// Log is one stream of it. It takes everything: whoever talks too much, or while the disk
// is full, is not stopped for that. Closing says what went wrong.
type Log struct {
	path  string
	f     *os.File // nil: there is nothing yet
	begin int      // bytes in the file
	end   []byte   // what came after those, or the last of it
	cut   int64    // bytes between them that are left out
	err   error
}

func (l *Log) Write(p []byte) (int, error) {
	n := min(len(p), maxBegin-l.begin)
	l.store(p[:n])
	l.begin += n
	l.keep(p[n:])
	return len(p), nil
}

func (l *Log) store(p []byte) {
	if len(p) == 0 || l.err != nil {
		return
	}
	if l.f == nil {
		if l.f, l.err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); l.err != nil {
			return
		}
	}
	_, l.err = l.f.Write(p)
}

// keep remembers the end of what there is no room for. It is let grow to twice that, so
// that not each line moves all of it.
func (l *Log) keep(p []byte) {
	l.end = append(l.end, p...)
	if len(l.end) > 2*maxEnd {
		l.trim()
	}
}

func (l *Log) trim() {
	if over := len(l.end) - maxEnd; over > 0 {
		l.cut += int64(over)
		l.end = append(l.end[:0], l.end[over:]...)
	}
}

func (l *Log) close() error {
	if l.trim(); l.cut > 0 {
		l.store(fmt.Appendf(nil, "\n... %d bytes are left out here ...\n", l.cut))
	}
	l.store(l.end)
	if l.f == nil {
		return l.err
	}
	return errors.Join(l.err, l.f.Close())
}

// makeRoom removes the oldest files of a directory until so many bytes are left at most. Some
// stay.
func makeRoom(dir string, most int64, stays func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sum int64
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			files, sum = append(files, info), sum+info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range files {
		if sum <= most {
			break
		}
		if stays(f.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		sum -= f.Size()
	}
	return nil
}

// Printed gives the files of what was printed in the last try of an iteration: on standard
// output, and on standard error. Neither need be there.
func (r *Run) Printed(iteration int) (stdout, stderr string, err error) {
	last, err := r.lastTry(iteration)
	if err == nil && last == 0 {
		err = fmt.Errorf("what was printed in iteration %d: %w", iteration, fs.ErrNotExist)
	}
	if err != nil {
		return "", "", err
	}
	name := filepath.Join(r.dir, logsName, fmt.Sprintf("%d.%d", iteration, last))
	return name + outSuffix, name + errSuffix, nil
}

// lastTry is the last try of an iteration of which anything is there; 0 if there is none.
func (r *Run) lastTry(iteration int) (last int, err error) {
	entries, err := os.ReadDir(filepath.Join(r.dir, logsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), strconv.Itoa(iteration)+".")
		if ok {
			try, _, _ := strings.Cut(name, ".")
			n, _ := strconv.Atoi(try)
			last = max(last, n)
		}
	}
	return last, nil
}
