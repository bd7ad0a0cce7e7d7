package nsproc

import (
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Humbly starts a process that has none of a keeper's privileges in its namespaces, and can never gain
// any.
func Humbly(start func() error) error {
	done := make(chan error)
	humble() <- func(err error) {
		if err == nil {
			err = start()
		}
		done <- err
	}
	return <-done
}

// humble is a thread that has given up all privileges that it could pass on. It lives as long as
// the process: a goroutine may get the thread that started a part of the sandbox's wall. When that
// thread ends, the kernel kills the processes that it started (PR_SET_PDEATHSIG).
var humble = sync.OnceValue(func() chan<- func(error) {
	orders := make(chan func(error))
	go func() {
		runtime.LockOSThread() // and never unlocked
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
		}
		runOrders(orders, err)
	}()
	return orders
})

// runOrders runs the functions that it receives for as long as the process lives. Tests that look for leaked
// goroutines recognise it by its name.
func runOrders(orders <-chan func(error), err error) {
	for f := range orders {
		f(err)
	}
}
