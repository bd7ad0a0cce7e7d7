package gvisor

import (
	"reflect"
	"sync"
	"unsafe"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/socket"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
	"gvisor.dev/gvisor/pkg/syserr"

	"github.com/bothy-dev/bothy/internal/wire"
)

// clockEarly has the time inside be read without the sentry from the first program on.
//
// Programs read it from a page that tells them how to make it of the processor's counter.
// The sentry knows that when it has compared the two clocks twice, and it does so once a
// second. Until then each look at the clock is a way to the sentry and back; some programs,
// and those who wait by spinning above all, look ten thousands of times in that second. So
// init says when it is there, and the second comparison is made then. What it is off by, a
// few millionths, is corrected with the next one.
func clockEarly() { socket.RegisterProvider(wire.ClockFamily, &clockSetter{}) }

// clockSetter is a family of sockets of which there are none.
type clockSetter struct {
	mu  sync.Mutex
	set *kernel.Timekeeper // the one it was done for: once, whoever asks
}

// Socket implements socket.Provider.
func (c *clockSetter) Socket(t *kernel.Task, _ linux.SockType, _ int) (*vfs.FileDescription, *syserr.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := t.Kernel()
	if clock := k.Timekeeper(); c.set != clock {
		c.set = clock
		setClock(clock, clockPage(k))
	}
	return nil, nil
}

// Pair implements socket.Provider.
func (*clockSetter) Pair(*kernel.Task, linux.SockType, int) (*vfs.FileDescription, *vfs.FileDescription, *syserr.Error) {
	return nil, nil, nil
}

// setClock compares the clocks: that is what a timekeeper does when it goes on.
func setClock(clock *kernel.Timekeeper, page *kernel.VDSOParamPage) {
	if page == nil {
		return
	}
	clock.Pause()
	clock.Resume(page)
}

// clockPage is the page that programs read. It is not exported.
func clockPage(k *kernel.Kernel) *kernel.VDSOParamPage {
	f := reflect.ValueOf(k).Elem().FieldByName(clockPageField)
	if !f.IsValid() || f.Type() != reflect.TypeFor[*kernel.VDSOParamPage]() {
		return nil
	}
	return (*kernel.VDSOParamPage)(unsafe.Pointer(f.Pointer()))
}

const clockPageField = "vdsoParams"
