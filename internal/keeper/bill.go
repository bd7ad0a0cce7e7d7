package keeper

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"

	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// bill keeps bill.json up to date: model usage is written as soon as it is known. A write under
// way is finished first.
type bill struct {
	path  string
	log   *slog.Logger
	meter *meter.Meter
	more  chan struct{} // holds one: something is to be written
	end   chan struct{} // closed when nothing more will come

	mu      sync.Mutex // held while it is written
	written spec.Bill
}

// openBill continues the bill of the last keeper. An unreadable bill stops the start: it may be
// the only record that a budget relies on.
func (k *Keeper) openBill() (*bill, error) {
	b := &bill{path: k.dir.Bill(), log: k.log, more: make(chan struct{}, 1), end: make(chan struct{})}
	var before spec.Bill
	if err := store.ReadJSON(b.path, &before); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &spec.Error{Op: "read what models have taken", Err: err, Hint: cmp.Or(spec.Hint(err), "to count anew, remove "+b.path)}
	}
	b.written = before
	b.meter = meter.New(spec.Bill{Models: slices.Clone(before.Models), Limited: before.Limited, Overloaded: before.Overloaded, Failed: before.Failed}, append(price.List(k.launch.Prices), price.Usual()...), k.spec.Budget, b.changed)
	go b.keep()
	return b, nil
}

func (b *bill) changed() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

func (b *bill) keep() {
	for {
		select {
		case <-b.more:
			_ = b.note()
		case <-b.end:
			return
		}
	}
}

// note writes the bill, and tells the meter if that fails. Usage that is not on disk is lost
// with this process, and a budget would then limit nothing.
func (b *bill) note() error {
	b.mu.Lock() // also while telling the meter, so that an older result cannot replace this one
	defer b.mu.Unlock()
	err := b.write()
	if err != nil {
		b.log.Warn("write what models have taken", "err", err)
	}
	b.meter.Kept(err)
	return err
}

func (b *bill) write() error {
	now := b.meter.Bill()
	if slices.Equal(now.Models, b.written.Models) && now.Limited == b.written.Limited && now.Overloaded == b.written.Overloaded && now.Failed == b.written.Failed {
		return nil
	}
	if err := store.WriteJSON(b.path, now); err != nil {
		return err
	}
	b.written = now
	return nil
}

// close writes the last state. No program may call a model after it.
func (b *bill) close() error {
	close(b.end)
	return b.note()
}

// uncounted explains the effect of a bill that could not be written at the end.
func (k *Keeper) uncounted(err error) error {
	return (&spec.Error{Op: "stop sandbox " + k.spec.Name, Err: fmt.Errorf("it is stopped, but what models have taken last is not in its bill: %w", err)}).
		WithHint("make room where %s is", k.dir.Dir)
}

func (k *Keeper) answerBill(c *unixconn.Conn) error {
	if err := k.bill.note(); err != nil {
		return err
	}
	return c.SendJSON(wire.Reply, k.bill.meter.Bill())
}
