package gvisor

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/urpc"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/driver/gvisor/starter"
	"github.com/bothy-dev/bothy/internal/sums"
)

// checkedFirst bounds the layers that are checked whole while the sentry comes up, which
// takes longer than that, and are then read by the sentry itself. Larger ones are handed out,
// and their pages checked as the sentry loads them.
const checkedFirst = 32 << 20

// layerLoad is a saved root layer from which a sentry is to start. It notes when the layer turns
// out to be damaged.
type layerLoad struct {
	handing *handing   // nil: the sentry reads it by itself
	checked chan error // receives the result of the check at the start

	mu      sync.Mutex
	damage  error       // the first
	onSpoil func(error) // set when there is a sentry to end
}

// loadLayer begins to check, or to hand out, the layer that a machine starts from. It returns nil
// if there is none, or if it is of a version that wrote no sums.
func loadLayer(m driver.Machine) (*layerLoad, error) {
	if m.Restore == "" || m.Memory != "" { // the layer is in the memory image
		return nil, nil
	}
	files, err := sums.Open(m.Restore)
	if errors.Is(err, sums.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, layerError(err)
	}
	l := &layerLoad{checked: make(chan error, 1)}
	if files.Size() <= checkedFirst && hasRoom(m.Overlay) {
		go func() {
			defer files.Close()
			l.checked <- files.Check(nil)
		}()
		return l, nil
	}
	if l.handing, err = handOut(files, l.spoil); err != nil {
		return nil, err
	}
	if m.CheckLayer {
		go func() { l.checked <- files.Check(nil) }()
	} else {
		l.checked <- nil
	}
	return l, nil
}

// hasRoom tells whether the disk that the root layer is loaded to is far from full. On a full one
// the sentry by itself fails with an I/O error, which does not say so.
func hasRoom(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Bavail*uint64(st.Bsize) > 4*checkedFirst
}

func layerError(err error) error { return fmt.Errorf("%w: %w", driver.ErrLayer, err) }

// spoil is called when a page cannot be handed out.
func (l *layerLoad) spoil(err error) {
	l.mu.Lock()
	if l.damage == nil {
		l.damage = layerError(err)
		if errors.Is(err, errPass) {
			l.damage = fmt.Errorf("load the saved layer of the root: %w", err)
		}
	}
	err, end := l.damage, l.onSpoil
	l.mu.Unlock()
	if end != nil {
		end(err)
	}
}

// watch has end called if the layer turns out to be damaged from now on. It returns an error
// if that is known already.
func (l *layerLoad) watch(end func(error)) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onSpoil = end
	return l.damage
}

// found waits for the check at the start, and returns the damage that is known.
func (l *layerLoad) found() error {
	if l == nil {
		return nil
	}
	if err := <-l.checked; err != nil {
		return layerError(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.damage
}

// handsOut tells whether the sentry asks for the layer, and does not read it by itself.
func (l *layerLoad) handsOut() bool { return l != nil && l.handing != nil }

// passTo adds the socket at which the layer is handed out to what the sentry is passed.
func (l *layerLoad) passTo(files map[int]*os.File) {
	if l.handsOut() {
		files[starter.LayerFD] = l.handing.theirs
	}
}

// end stops it.
func (l *layerLoad) end() {
	if l.handsOut() {
		l.handing.end()
	}
}

// bootFrom starts init in a sandbox that is created and starts from a layer. A sentry that the
// layer is handed out to, and that cannot be given a page, is ended before it hears of it. What
// the sentry reads by itself is waited for.
func (w *wall) bootFrom(l *layerLoad, m driver.Machine) error {
	sentry, err := unix.PidfdOpen(w.sandbox.Getpid(), 0)
	if err != nil {
		l.end()
		return fmt.Errorf("watch the sentry: %w", err)
	}
	end := func(err error) {
		w.end(err)
		_ = unix.PidfdSendSignal(sentry, unix.SIGKILL, nil, 0)
	}
	err = l.watch(end)
	if err == nil {
		err = w.boot(m)
	}
	if damage := l.found(); damage != nil { // the reason for whatever boot says
		err = damage
	}
	if err != nil {
		_ = l.watch(nil)
		l.end()
		unix.Close(sentry)
		return err
	}
	if !l.handsOut() {
		defer unix.Close(sentry)
		return w.waitForLayer()
	}
	go func() {
		switch err := w.waitForLayer(); {
		case errors.Is(err, driver.ErrLayer):
			end(err)
		case err != nil: // its end is told by those that watch it
			_ = unix.PidfdSendSignal(sentry, unix.SIGKILL, nil, 0)
		}
		_ = l.watch(nil)
		l.end()
		unix.Close(sentry)
	}()
	return nil
}

// noLayer is what the sentry says if nothing of a layer is to be loaded.
const noLayer = "no filesystems restored"

// waitForLayer returns when the sentry has all contents of the layer. With a layer that cannot
// be loaded a sandbox cannot go on: files could not be read, and could not be saved again. Only
// what the sentry itself says of the layer is an [driver.ErrLayer]: a sentry that was killed
// meanwhile says nothing about it.
func (w *wall) waitForLayer() error {
	err := w.reach(func() error { return w.sandbox.WaitFSRestore(w.c.ID) })
	answer, answered := errors.AsType[urpc.RemoteError](err)
	switch {
	case err == nil || answered && strings.Contains(answer.Message, noLayer):
		return nil
	case answered:
		return layerError(fmt.Errorf("load it: %w", brief(err)))
	}
	return fmt.Errorf("the sentry ended while it loaded the saved layer of the root: %w", errEnded)
}
