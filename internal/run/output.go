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

// logsName is the directory of the output.
const logsName = "logs"

// Bounds of an agent's kept output, in bytes.
const (
	maxBegin = 2 << 20 // of one stream of one try: its beginning
	maxEnd   = 2 << 20 // and its end
	maxLogs  = 64 << 20
)

// Output is an agent's output in one try of an iteration: all of it, or its beginning and its end, with
// the number of bytes left out between them. The beginning goes to the file at once, for readers during
// the try or after a crash.
type Output struct {
	Stdout, Stderr *Log
	logs           string
}

// Endings of the file names.
const (
	outSuffix = ".log"
	errSuffix = ".err"
)

// Output creates files in the directory of the run for the output of an iteration. Each try has its own
// files.
func (r *Run) Output(iteration int) (*Output, error) {
	dir := filepath.Join(r.dir, logsName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep the output of iteration %d: %w", iteration, err)
	}
	last, err := r.lastTry(iteration)
	if err != nil {
		return nil, fmt.Errorf("keep the output of iteration %d: %w", iteration, err)
	}
	for try := last + 1; ; try++ { // a lower number may be free again, but would look like an earlier try
		name := filepath.Join(dir, fmt.Sprintf("%d.%d", iteration, try))
		f, err := os.OpenFile(name+outSuffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("keep the output of iteration %d: %w", iteration, err)
		}
		printing.Store(name, true)
		o := &Output{Stdout: &Log{path: name + outSuffix, f: f}, Stderr: &Log{path: name + errSuffix}, logs: dir}
		return o, nil
	}
}

// Close closes the files, and makes room: the kept output of a run is bounded, and the oldest is deleted
// first.
func (o *Output) Close() error {
	err := errors.Join(o.Stdout.close(), o.Stderr.close())
	err = errors.Join(err, makeRoom(o.logs, maxLogs, func(name string) bool {
		_, ok := printing.Load(filepath.Join(o.logs, strings.TrimSuffix(name, filepath.Ext(name))))
		return ok
	}))
	printing.Delete(strings.TrimSuffix(o.Stdout.path, outSuffix))
	return err
}

// printing has the paths, without the endings, of files that this process still writes. There may be
// several workers.
var printing sync.Map

// Log is one stream of an Output. It accepts everything: too much output, or a full disk, does not stop
// an agent. Closing it returns the error.
type Log struct {
	path  string
	f     *os.File // nil: no output yet
	begin int      // bytes in the file
	end   []byte   // the bytes after those, or the last of them
	cut   int64    // number of bytes left out between them
	err   error
}

func (l *Log) Write(p []byte) (int, error) {
	n := min(len(p), maxBegin-l.begin)
	l.appendOutput(p[:n])
	l.begin += n
	l.keepEnd(p[n:])
	return len(p), nil
}

func (l *Log) appendOutput(p []byte) {
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

// keepEnd keeps the end of output that is too long. Its buffer may grow to twice its size, so that not
// every line moves all of it.
func (l *Log) keepEnd(p []byte) {
	l.end = append(l.end, p...)
	if len(l.end) > 2*maxEnd {
		l.trimOutput()
	}
}

func (l *Log) trimOutput() {
	if over := len(l.end) - maxEnd; over > 0 {
		l.cut += int64(over)
		l.end = append(l.end[:0], l.end[over:]...)
	}
}

func (l *Log) close() error {
	if l.trimOutput(); l.cut > 0 {
		l.appendOutput(fmt.Appendf(nil, "\n... %d bytes are left out here ...\n", l.cut))
	}
	l.appendOutput(l.end)
	if l.f == nil {
		return l.err
	}
	return errors.Join(l.err, l.f.Close())
}

// makeRoom removes the oldest files of a directory until at most this many bytes are left. It keeps
// files for which stays returns true.
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

// Printed returns the files of the output in the last try of an iteration: standard output and standard
// error. Either file may be missing.
func (r *Run) Printed(iteration int) (stdout, stderr string, err error) {
	last, err := r.lastTry(iteration)
	if err == nil && last == 0 {
		err = fmt.Errorf("the output of iteration %d: %w", iteration, fs.ErrNotExist)
	}
	if err != nil {
		return "", "", err
	}
	name := filepath.Join(r.dir, logsName, fmt.Sprintf("%d.%d", iteration, last))
	return name + outSuffix, name + errSuffix, nil
}

// lastTry returns the last try of an iteration that has any output, or 0.
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
