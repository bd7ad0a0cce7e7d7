// Package helper has another process of bothy do one job that reads untrusted input: a registry's
// answers, an archive, a Dockerfile. The process gets an order on its standard input, which stays open
// as long as the caller waits. It writes its progress, and in the end the result, to its standard
// output, one JSON document per line.
package helper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Message is one line of the answer: an event, or in the end the result or an error.
type Message[E, R any] struct {
	Event  *E              `json:"event,omitempty"`
	Result *R              `json:"result,omitempty"`
	Error  *spec.WireError `json:"error,omitempty"`
}

// ErrSilent reports that the process ended without an answer. Its exit status is then the reason.
var ErrSilent = errors.New("it ended without an answer")

// Listen reads the process's output to its end, and returns its answer.
func Listen[E, R any](r io.Reader, progress func(E)) (R, error) {
	var none R
	for d := json.NewDecoder(r); ; {
		var m Message[E, R]
		err := d.Decode(&m)
		switch {
		case err == io.EOF:
			return none, ErrSilent
		case err != nil:
			return none, fmt.Errorf("%w: %w", ErrSilent, err)
		case m.Error != nil:
			return none, m.Error.Err()
		case m.Result != nil:
			return *m.Result, nil
		case m.Event != nil && progress != nil:
			progress(*m.Event)
		}
	}
}

// maxOrder bounds an order in bytes.
const maxOrder = 16 << 20

// grace is how long an order may take to give up after its caller stops waiting.
const grace = 5 * time.Second

// Run carries out one order and returns the exit code. When in ends, the caller no longer waits, and Run
// cancels the order. An order that does not stop within a few seconds, because it waits for a disk or
// processes a large file, ends with the process: its output is complete or missing.
func Run[O, E, R any](in io.Reader, out io.Writer, do func(context.Context, O, func(E)) (R, error)) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	var order O
	if err := json.NewDecoder(io.LimitReader(in, maxOrder)).Decode(&order); err != nil {
		return answer[E](out, *new(R), errors.New("it was given no order"))
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel(errors.New("who asked for it is gone"))
		select {
		case <-done:
		case <-time.After(grace):
			os.Exit(spec.ExitError)
		}
	}()
	tell := json.NewEncoder(out)
	result, err := do(ctx, order, func(e E) {
		_ = tell.Encode(Message[E, R]{Event: &e}) // if the caller is gone, in ends too
	})
	return answer[E](out, result, err)
}

func answer[E, R any](out io.Writer, result R, err error) int {
	m, code := Message[E, R]{Result: &result}, spec.ExitOK
	if err != nil {
		m, code = Message[E, R]{Error: spec.ToWire(err)}, spec.ExitCode(err)
	}
	if json.NewEncoder(out).Encode(m) != nil {
		return spec.ExitError
	}
	return code
}

// step is the number of bytes that are worth an event.
const step = 1 << 20

// Pace selects the events that are worth reporting. The zero value is ready.
type Pace struct {
	what  string
	bytes int64
}

// Worth reports whether an event is worth reporting: bytes of total are done. Total is 0 if it is
// unknown.
func (p *Pace) Worth(what string, bytes, total int64) bool {
	complete := total > 0 && bytes == total
	if what == p.what && bytes >= p.bytes && bytes-p.bytes < step && !complete {
		return false
	}
	p.what, p.bytes = what, bytes
	return true
}
