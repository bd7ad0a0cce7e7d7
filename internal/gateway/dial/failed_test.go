package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
)

// TestFailed checks that the log names the address that did not answer and why, or the resolver's
// error. The inside learns as much as before.
func TestFailed(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}
	call := func(e syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: os.NewSyscallError("connect", e)}
	}
	for want, err := range map[string]error{
		"192.0.2.1:443 does not answer: connection refused":                               call(syscall.ECONNREFUSED),
		"192.0.2.1:443 does not answer: no route to host":                                 call(syscall.EHOSTUNREACH),
		"192.0.2.1:443 does not answer: network is unreachable":                           call(syscall.ENETUNREACH),
		"192.0.2.1:443 does not answer: i/o timeout":                                      &net.OpError{Op: "dial", Addr: at, Err: os.ErrDeadlineExceeded},
		"host not found: a.example":                                                       lookup(&net.DNSError{Err: "no such host", Name: "a.example.", IsNotFound: true}),
		"the host's resolver 192.0.2.53:53 does not tell where a.example is: i/o timeout": lookup(&net.DNSError{Err: "i/o timeout", Name: "a.example.", Server: "192.0.2.53:53", IsTimeout: true}),
		"the host's resolver does not tell where a.example is: server misbehaving":        lookup(&net.DNSError{Err: "server misbehaving", Name: "a.example."}),
	} {
		got := failed("a.example", err)
		f, ok := errors.AsType[*Failed](got)
		if !ok || got.Error() != want {
			t.Errorf("%v is told as %q, not %q", err, got, want)
			continue
		}
		if _, isLookup := errors.AsType[*net.DNSError](err); isLookup == f.Addr.IsValid() || !isLookup && f.Addr != netip.MustParseAddrPort("192.0.2.1:443") {
			t.Errorf("%v is of %v", err, f.Addr)
		}
		if fmt.Sprint(Silence("a.example:443", "a.example", got)) != fmt.Sprint(Silence("a.example:443", "a.example", err)) {
			t.Errorf("the inside is told something else of %v", err)
		}
	}
	if err := failed("a.example", context.Canceled); !errors.Is(err, context.Canceled) || errors.As(err, new(*Failed)) {
		t.Errorf("what nobody waits for any more is told as %v", err)
	}
}

func lookup(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
