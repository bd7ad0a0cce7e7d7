package inspect

import (
	"net"
	"testing"
)

// gone is a connection whose client has gone: it no longer has an address.
type gone struct{ net.Conn }

func (gone) RemoteAddr() net.Addr { return nil }

// TestClientWithoutAddress checks a case in which net/http would panic.
func TestClientWithoutAddress(t *testing.T) {
	c := &conn{done: make(chan struct{})}
	if a := newFrames(gone{}, c, nil).RemoteAddr(); a == nil || a.String() == "" {
		t.Errorf("the address is %v", a)
	}
}
