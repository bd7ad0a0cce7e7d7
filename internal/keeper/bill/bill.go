// Package bill keeps the file of model usage up to date.
package bill

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync"

	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Bill keeps bill.json up to date: model usage is written as soon as it is known. A write under
// way is finished first.
type Bill struct {
	path    string
	log     *slog.Logger
	counter *meter.Meter
	changes chan struct{} // holds one: the bill must be written
	end     chan struct{} // closed when no more changes come

	mu      sync.Mutex // held while the file is written and the meter is told of it; guards written
	written spec.Bill  // the contents of the file
}

// Open continues the bill of the last keeper. An unreadable bill stops the start: it may be
// the only record that a budget relies on.
func Open(path string, prices []price.Price, budget spec.Budget, log *slog.Logger) (*Bill, error) {
	b := &Bill{path: path, log: log, changes: make(chan struct{}, 1), end: make(chan struct{})}
	var before spec.Bill
	if err := store.ReadJSON(b.path, &before); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &spec.Error{Op: "read what models have taken", Err: err, Hint: cmp.Or(spec.Hint(err), "to count anew, remove "+b.path)}
	}
	b.written = before
	b.counter = meter.New(spec.Bill{Models: slices.Clone(before.Models), Limited: before.Limited, Overloaded: before.Overloaded, Failed: before.Failed}, append(price.List(prices), price.Usual()...), budget, b.changed)
	go b.keepWritten()
	return b, nil
}

// Meter returns the meter of model usage.
func (b *Bill) Meter() *meter.Meter { return b.counter }

func (b *Bill) changed() {
	select {
	case b.changes <- struct{}{}:
	default:
	}
}

func (b *Bill) keepWritten() {
	for {
		select {
		case <-b.changes:
			_ = b.Note()
		case <-b.end:
			return
		}
	}
}

// Note writes the bill, and tells the meter if that fails. Usage that is not on disk is lost
// with this process, and a budget would then limit nothing.
func (b *Bill) Note() error {
	b.mu.Lock() // also while telling the meter, so that an older result cannot replace this one
	defer b.mu.Unlock()
	err := b.writeFile()
	if err != nil {
		b.log.Warn("write what models have taken", "err", err)
	}
	b.counter.Kept(err)
	return err
}

func (b *Bill) writeFile() error {
	now := b.counter.Bill()
	if slices.Equal(now.Models, b.written.Models) && now.Limited == b.written.Limited && now.Overloaded == b.written.Overloaded && now.Failed == b.written.Failed {
		return nil
	}
	if err := store.WriteJSON(b.path, now); err != nil {
		return err
	}
	b.written = now
	return nil
}

// Close writes the last state. No program may call a model after it.
func (b *Bill) Close() error {
	close(b.end)
	return b.Note()
}
