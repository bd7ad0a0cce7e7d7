package namepool

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/quick"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

func TestOneName(t *testing.T) {
	p := New()
	seen := map[netip.Addr]string{}
	for i := range 3000 {
		name := fmt.Sprintf("n%d.example", i)
		v4, v6, err := p.Addresses(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []netip.Addr{v4, v6} {
			if other, ok := seen[a]; ok {
				t.Fatalf("%v is of %s and of %s", a, other, name)
			}
			seen[a] = name
			if got, ok := p.Name(a); !ok || got != name {
				t.Fatalf("%v is of %q, want %s", a, got, name)
			}
			if !Own(a) {
				t.Fatalf("%v is not in the sandbox's network", a)
			}
		}
		again4, again6, err := p.Addresses(name)
		if err != nil || again4 != v4 || again6 != v6 {
			t.Fatalf("%s moved", name)
		}
	}
	for _, a := range []netip.Addr{Gateway4, Gateway6, Inside4, Inside6} {
		if _, ok := seen[a]; ok {
			t.Errorf("%v stands for a name", a)
		}
	}
}

func TestStrangers(t *testing.T) {
	p := New()
	v4, v6, _ := p.Addresses("a.example")
	for _, a := range []netip.Addr{
		Gateway4, Gateway6, Inside4, v4.Next(), v6.Next(), v4.Prev(), v6.Prev(),
		{},
		netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::100"), netip.MustParseAddr("fd62:6f74:6879:0:1::100"),
		netip.AddrFrom16(v4.As16()), v6.WithZone("eth0"), netip.MustParseAddr("198.20.0.0"), netip.MustParseAddr("::"),
	} {
		if name, ok := p.Name(a); ok {
			t.Errorf("%v is taken for %s", a, name)
		}
	}
}

func TestInverse(t *testing.T) {
	err := quick.Check(func(n uint16) bool {
		v4, v6 := addresses(int(n))
		n4, ok4 := number(v4)
		n6, ok6 := number(v6)
		return ok4 && ok6 && n4 == int(n) && n6 == int(n)
	}, nil)
	if err != nil {
		t.Error(err)
	}
}

func TestFull(t *testing.T) {
	p := New()
	for i := range Max {
		if _, _, err := p.Addresses(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := p.Addresses("more"); !errors.Is(err, spec.ErrDenied) {
		t.Errorf("one too many: %v", err)
	}
	if _, _, err := p.Addresses("7"); err != nil {
		t.Errorf("an old one: %v", err)
	}
	if v4, _, _ := p.Addresses(fmt.Sprint(Max - 1)); !Own(v4) {
		t.Errorf("the last has %v", v4)
	}
}

func TestAtOnce(t *testing.T) {
	p := New()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				name := fmt.Sprint(i)
				a, _, err := p.Addresses(name)
				if got, _ := p.Name(a); err != nil || got != name {
					t.Errorf("%s: %v, %q, %v", name, a, got, err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(p.Names()); n != 500 {
		t.Errorf("%d names", n)
	}
}

// TestResume checks that a restored pool gives every name the same address, and new names other
// addresses.
func TestResume(t *testing.T) {
	p := New()
	for i := range 5 {
		if _, _, err := p.Addresses(fmt.Sprintf("n%d.example", i)); err != nil {
			t.Fatal(err)
		}
	}
	r := Resume(p.Names())
	for _, name := range append(p.Names(), "new.example") {
		a4, a6, err := p.Addresses(name)
		b4, b6, rerr := r.Addresses(name)
		if err != nil || rerr != nil || a4 != b4 || a6 != b6 {
			t.Errorf("%s: %v and %v, %v %v", name, a4, b4, err, rerr)
		}
	}
}

// TestNetworkOfPolicy checks that package policy knows the network: no rule can be about its addresses.
func TestNetworkOfPolicy(t *testing.T) {
	for _, network := range []netip.Prefix{Network4, Network6} {
		p, err := policy.Compile(1, policy.Input{Layer: policy.LayerUser, Block: policy.Block{Default: policy.Allow}})
		if err != nil {
			t.Fatal(err)
		}
		first := network.Addr()
		last := first.AsSlice()
		for i := network.Bits(); i < 8*len(last); i++ {
			last[i/8] |= 0x80 >> (i % 8)
		}
		end, _ := netip.AddrFromSlice(last)
		for a, in := range map[netip.Addr]bool{first: true, end: true, first.Prev(): false, end.Next(): false} {
			d := p.Decide(policy.Query{Stage: policy.StageConnect, Addr: a, Port: 443, Now: time.Now()})
			if got := strings.Contains(d.Reason(), "own network"); got != in {
				t.Errorf("%v: %s", a, d.Reason())
			}
		}
	}
}
