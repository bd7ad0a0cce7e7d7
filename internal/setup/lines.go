package setup

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/bothy-dev/bothy/internal/term"
)

// lineWriter passes foreign lines on, each after a bar, so that none looks like a line of ours.
type lineWriter struct {
	mu   *sync.Mutex // shared by all writers to out
	out  io.Writer
	rest []byte
}

// maxLine bounds a line, in bytes; a longer one is split.
const maxLine = 16 << 10

// newLineWriters returns writers for the two streams of a command.
func newLineWriters(to io.Writer) (out, errs *lineWriter) {
	mu := &sync.Mutex{}
	return &lineWriter{mu: mu, out: to}, &lineWriter{mu: mu, out: to}
}

func (w *lineWriter) Write(p []byte) (int, error) {
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

func (w *lineWriter) showLine() {
	text := strings.ReplaceAll(strings.TrimRight(string(w.rest), "\r"), "\t", "    ")
	w.rest = w.rest[:0]
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, "  | %s\n", term.Sanitize(text))
}

// endLine passes on the rest after the last line end.
func (w *lineWriter) endLine() {
	if len(w.rest) > 0 {
		w.showLine()
	}
}
