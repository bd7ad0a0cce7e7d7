package audit

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// Output keeps the latest part of a program's output, byte for byte. It is an io.Writer that never
// makes io.Copy of that output fail.
type Output struct {
	mu   sync.Mutex
	file *file
	loss loss
	err  error // the first of a row of losses, until Err returns it
}

// OpenOutput opens the output kept at path to append to it. It and its old file hold at most maxBytes
// each; 0 means DefaultMaxBytes.
func OpenOutput(path string, maxBytes int64) (*Output, error) {
	f, err := openFile(path, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("open output log: %w", err)
	}
	return &Output{file: f}, nil
}

// Write adds p. It accepts all of p even if the disk does not: an error would end io.Copy, and with it
// the writing program. A loss is counted, and reported in a line of its own before the next bytes that
// fit: an event of KindDropped, as in a Log. Err has the reason. Write returns an error only after
// Close.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file.closed {
		return 0, fmt.Errorf("append to output log: %w", os.ErrClosed)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if err := o.writeNote(); err != nil {
		o.countLost(len(p), err)
		return len(p), nil
	}
	n, err := o.fillFiles(p)
	if err != nil {
		o.countLost(len(p)-n, err)
		return len(p), nil
	}
	o.loss.endLoss()
	return len(p), nil
}

// writeNote writes the note of a loss, if there was one.
func (o *Output) writeNote() error {
	note := o.loss.noteLine(time.Now())
	if len(note) == 0 {
		return nil
	}
	if o.file.isTorn() {
		note = append([]byte{'\n'}, note...)
	}
	if _, err := o.fillFiles(note); err != nil {
		return err
	}
	o.loss.clearNoted()
	return nil
}

// fillFiles writes p, to as many files as it needs, and returns how much was written.
func (o *Output) fillFiles(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		if err := o.file.makeRoom(1); err != nil {
			return done, err
		}
		room := int(min(o.file.max-o.file.size, int64(len(p)-done)))
		n, err := o.file.write(p[done : done+room])
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func (o *Output) countLost(n int, err error) {
	if o.loss.addBytes(n) {
		o.err = fmt.Errorf("append to output log: %w", err)
	}
}

// Err returns why output was lost, once for each row of losses, and nil without a new loss.
func (o *Output) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.err
	o.err = nil
	return err
}

// Close ends the output. If something was lost, this is the last chance to record it.
func (o *Output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file.closed {
		return nil
	}
	_ = o.writeNote() // Err has the reason already
	return o.file.close()
}
