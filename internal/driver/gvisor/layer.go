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

// checkedFirst bounds the layers that are checked completely while the sentry starts, which takes
// longer than the check; the sentry then reads them itself. Larger layers are handed out, and
// their pages are checked as the sentry loads them.
const checkedFirst = 32 << 20

// layerLoad is a saved root layer from which a sentry starts. It records whether the layer turns out to
// be damaged.
type layerLoad struct {
	handing *handing   // nil: the sentry reads the layer by itself
	checked chan error // receives the result of the check at the start

	mu      sync.Mutex
	damage  error       // the first damage found
	onSpoil func(error) // set while a sentry exists
}

// loadLayer starts to check, or to hand out, the layer of a machine. It returns nil if the machine has
// no layer, or one of a version that wrote no sums.
func loadLayer(m driver.Machine) (*layerLoad, error) {
	if m.Restore == "" || m.Memory != "" { // the memory image includes the layer
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
	if l.handing, err = handOut(files, l.reportDamage); err != nil {
		return nil, err
	}
	if m.CheckLayer {
		go func() { l.checked <- files.Check(nil) }()
	} else {
		l.checked <- nil
	}
	return l, nil
}

// hasRoom reports whether the disk for the loaded root layer is far from full. On a full disk the sentry
// itself fails with an I/O error, which does not mention the disk.
func hasRoom(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Bavail*uint64(st.Bsize) > 4*checkedFirst
}

func layerError(err error) error { return fmt.Errorf("%w: %w", driver.ErrLayer, err) }

// reportDamage is called when a page is unavailable.
func (l *layerLoad) reportDamage(err error) {
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

// watchDamage sets the function that is called if the layer turns out to be damaged. It returns an error if
// damage is known already.
func (l *layerLoad) watchDamage(end func(error)) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onSpoil = end
	return l.damage
}

// awaitCheck waits for the check at the start, and returns known damage.
func (l *layerLoad) awaitCheck() error {
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

// handsOut reports whether the layer is handed out to the sentry; otherwise the sentry reads it itself.
func (l *layerLoad) handsOut() bool { return l != nil && l.handing != nil }

// passTo adds the socket for a handed-out layer to the files that the sentry gets.
func (l *layerLoad) passTo(files map[int]*os.File) {
	if l.handsOut() {
		files[starter.LayerFD] = l.handing.theirs
	}
}

// stopHanding stops handing the layer out.
func (l *layerLoad) stopHanding() {
	if l.handsOut() {
		l.handing.stopHanding()
	}
}

// bootFrom starts init in a created sandbox that has a layer. If a page of a handed-out layer is
// unavailable, the sentry is killed before it learns of that. bootFrom waits until a sentry that reads
// the layer itself has done so.
func (w *wall) bootFrom(l *layerLoad, m driver.Machine) error {
	sentry, err := unix.PidfdOpen(w.sandbox.Getpid(), 0)
	if err != nil {
		l.stopHanding()
		return fmt.Errorf("watch the sentry: %w", err)
	}
	end := func(err error) {
		w.endWall(err)
		_ = unix.PidfdSendSignal(sentry, unix.SIGKILL, nil, 0)
	}
	err = l.watchDamage(end)
	if err == nil {
		err = w.bootInit(m)
	}
	if damage := l.awaitCheck(); damage != nil { // this explains any error of boot
		err = damage
	}
	if err != nil {
		_ = l.watchDamage(nil)
		l.stopHanding()
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
		case err != nil: // the watchers of the sentry report its end
			_ = unix.PidfdSendSignal(sentry, unix.SIGKILL, nil, 0)
		}
		_ = l.watchDamage(nil)
		l.stopHanding()
		unix.Close(sentry)
	}()
	return nil
}

// noLayer is the sentry's answer if it has no layer to load.
const noLayer = "no filesystems restored"

// waitForLayer returns when the sentry has loaded the whole layer. Without it a sandbox cannot continue:
// files could not be read, and could not be saved again. Only the sentry's own error about the layer is
// an [driver.ErrLayer]: the end of a killed sentry tells nothing about the layer.
func (w *wall) waitForLayer() error {
	err := w.reachSentry(func() error { return w.sandbox.WaitFSRestore(w.c.ID) })
	answer, answered := errors.AsType[urpc.RemoteError](err)
	switch {
	case err == nil || answered && strings.Contains(answer.Message, noLayer):
		return nil
	case answered:
		return layerError(fmt.Errorf("load it: %w", firstLine(err)))
	}
	return fmt.Errorf("the sentry ended while it loaded the saved layer of the root: %w", errEnded)
}
