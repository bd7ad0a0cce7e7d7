package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
)

// Failed tells the host's user why an allowed server could not be reached. The inside learns less:
// see Silence.
type Failed struct {
	Addr netip.AddrPort // that was tried first; zero if none was
	Why  string
	err  error
}

func (f *Failed) Error() string { return f.Why }
func (f *Failed) Unwrap() error { return f.err }

func failed(name string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err // the caller no longer waits
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		switch {
		case lookup.IsNotFound:
			return &Failed{Why: "host not found: " + name, err: err}
		case lookup.Server != "":
			return &Failed{Why: fmt.Sprintf("the host's resolver %s does not tell where %s is: %s", lookup.Server, name, lookup.Err), err: err}
		}
		return &Failed{Why: fmt.Sprintf("the host's resolver does not tell where %s is: %s", name, lookup.Err), err: err}
	}
	op, ok := errors.AsType[*net.OpError](err)
	if !ok {
		return err
	}
	why := op.Err
	if call, ok := errors.AsType[*os.SyscallError](why); ok {
		why = call.Err
	}
	to, ok := op.Addr.(*net.TCPAddr)
	if !ok {
		return &Failed{Why: fmt.Sprintf("%s does not answer: %v", name, why), err: err}
	}
	at := to.AddrPort()
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	return &Failed{Addr: at, Why: fmt.Sprintf("%s does not answer: %v", at, why), err: err}
}
