package term

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

// LineWriter passes foreign lines on, each after a bar, so that none looks like a line of ours.
type LineWriter struct {
	mu   *sync.Mutex // shared by all writers to out
	out  io.Writer
	rest []byte
}

// maxLine bounds a line, in bytes; a longer one is split.
const maxLine = 16 << 10

// NewLineWriters returns writers for the two streams of a command. Goroutines may use them at once.
func NewLineWriters(to io.Writer) (out, errs *LineWriter) {
	mu := &sync.Mutex{}
	return &LineWriter{mu: mu, out: to}, &LineWriter{mu: mu, out: to}
}

// Write implements [io.Writer].
func (w *LineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		line, more, whole := bytes.Cut(p, []byte{'\n'})
		w.rest = append(w.rest, line...)
		p = more
		if whole || len(w.rest) >= maxLine {
			w.showLine()
		}
	}
	return n, nil
}

func (w *LineWriter) showLine() {
	text := strings.ReplaceAll(strings.TrimRight(string(w.rest), "\r"), "\t", "    ")
	w.rest = w.rest[:0]
	fmt.Fprintf(w.out, "  | %s\n", Sanitize(text))
}

// End passes on the rest after the last line end.
func (w *LineWriter) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) > 0 {
		w.showLine()
	}
}
