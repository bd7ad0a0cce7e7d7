package netstack

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/bothy-dev/bothy/internal/gateway/insidetest"
)

// TestSources checks that containers inside can send from their own addresses, and get the answers.
// A packet from any other address, such as the gateway's own or the host's stand-in, goes nowhere,
// gets no answer, and is reported.
func TestSources(t *testing.T) {
	attempts, told := make(chan netip.Addr, 100), make(chan Refusal, 100)
	c := serving(t, func(c *Conn) { _, _ = c.Write([]byte("hello")) })
	accept := c.TCP
	c.TCP = func(a *Attempt) { attempts <- a.From.Addr(); accept(a) }
	c.Sources = []netip.Prefix{netip.PrefixFrom(guest4, 32), netip.PrefixFrom(guest6, 128), netip.MustParsePrefix("172.16.0.0/12")}
	c.Refused = func(r Refusal) { told <- r }
	_, in := start(t, c)

	dial := func(from netip.Addr, to netip.AddrPort) error {
		at := tcpip.ProtocolAddress{Protocol: protocolOf(from), AddressWithPrefix: tcpip.AddrFromSlice(from.AsSlice()).WithPrefix()}
		if from != guest4 && from != guest6 {
			try(t, in.Stack.AddProtocolAddress(1, at, stack.AddressProperties{}))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		conn, err := gonet.DialTCPWithBind(ctx, in.Stack, insidetest.Full(netip.AddrPortFrom(from, 0)), insidetest.Full(to), protocolOf(from))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Read(make([]byte, 5))
		return err
	}
	for _, from := range []string{guest4.String(), "172.17.0.2", "172.31.255.254"} {
		if err := dial(netip.MustParseAddr(from), far4); err != nil {
			t.Errorf("from %s: %v", from, err)
		}
		if got := <-attempts; got.String() != from {
			t.Errorf("from %s came from %v", from, got)
		}
	}
	if err := dial(guest6, far6); err != nil {
		t.Error(err)
	}
	<-attempts
	for _, from := range []string{"203.0.113.7", "172.32.0.1", "10.0.0.1", "198.18.0.3", "169.254.1.1", "8.8.8.8"} {
		if err := dial(netip.MustParseAddr(from), far4); err == nil {
			t.Errorf("from %s: an answer", from)
		}
		if r := <-told; r.Form != foreign || r.To.Addr() != far4.Addr() {
			t.Errorf("from %s: told as %+v", from, r)
		}
		for len(told) > 0 {
			<-told
		}
	}
	if err := dial(netip.MustParseAddr("2001:db8::7"), far6); err == nil {
		t.Error("an answer for another address of IPv6")
	}
	if len(attempts) > 0 {
		t.Errorf("an attempt from %v", <-attempts)
	}
}
