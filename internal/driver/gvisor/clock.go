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

// clockEarly lets programs read the time without the sentry from the first program on. Programs compute
// the time from the processor's counter, with parameters from a shared page. The sentry knows the
// parameters after it has compared the two clocks twice, which it does once a second. Until then each
// read of the clock is a call to the sentry. Some programs, above all those that wait by spinning, read
// it ten thousands of times in that second. So init reports that it runs, and the sentry then makes the
// second comparison. The error, a few millionths, is corrected by the next one.
func clockEarly() { socket.RegisterProvider(wire.ClockFamily, &clockSetter{}) }

// clockSetter is a socket family without sockets.
type clockSetter struct {
	mu  sync.Mutex
	set *kernel.Timekeeper // the clock that was set: only once, whichever program asks
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

// setClock compares the clocks, as a timekeeper does when it resumes.
func setClock(clock *kernel.Timekeeper, page *kernel.VDSOParamPage) {
	if page == nil {
		return
	}
	clock.Pause()
	clock.Resume(page)
}

// clockPage returns the page that programs read. The field is not exported.
func clockPage(k *kernel.Kernel) *kernel.VDSOParamPage {
	f := reflect.ValueOf(k).Elem().FieldByName(clockPageField)
	if !f.IsValid() || f.Type() != reflect.TypeFor[*kernel.VDSOParamPage]() {
		return nil
	}
	return (*kernel.VDSOParamPage)(unsafe.Pointer(f.Pointer()))
}

const clockPageField = "vdsoParams"
