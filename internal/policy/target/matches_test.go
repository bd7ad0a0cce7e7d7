package target

import (
	"net/netip"
	"testing"
)

func TestMatches(t *testing.T) {
	addr := netip.MustParseAddr
	for _, tt := range []struct {
		target, name string
		addr         netip.Addr
		port         uint16
		want         bool
	}{
		{"*.example.com", "a.example.com", netip.Addr{}, 443, true},
		{"*.example.com", "example.com", netip.Addr{}, 443, false},
		{"example.com:443", "example.com", netip.Addr{}, 80, false},
		{"10.0.0.0/8", "a.example", addr("10.1.1.1"), 22, true},
		{"10.0.0.0/8", "a.example", netip.Addr{}, 22, false},
		{"**", "", addr("10.1.1.1"), 22, true},
		{"**", "", netip.Addr{}, 22, false},
	} {
		target, err := Parse(tt.target)
		if err != nil {
			t.Fatal(err)
		}
		if got := target.Matches(tt.name, tt.addr, tt.port); got != tt.want {
			t.Errorf("%s, %q %v %d: %t", tt.target, tt.name, tt.addr, tt.port, got)
		}
	}
}
