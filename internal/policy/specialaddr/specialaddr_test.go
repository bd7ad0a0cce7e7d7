package specialaddr

import (
	"net/netip"
	"testing"
)

func TestSpecial(t *testing.T) {
	public := []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1",
		"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.0.9", "192.0.0.10", "192.0.1.0", "192.31.196.1", "192.52.193.1",
		"192.167.255.255", "192.169.0.0", "192.175.48.1", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"2000::1", "2001:1::1", "2001:1::3", "2001:3::1", "2001:4:112::1", "2001:20::1", "2001:200::1", "2001:4860:4860::8888", "2606:2800::1", "2620:4f:8000::1", "3ffe::1",
	}
	closed := []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1", "127.255.255.255",
		"169.254.0.0", "169.254.169.254", "169.254.170.2", "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.8", "192.0.0.11", "192.0.0.170", "192.0.0.192", "192.0.2.1",
		"192.88.99.1", "192.168.0.1", "198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255",
		"240.0.0.1", "255.255.255.254", "255.255.255.255", "168.63.129.16", "100.100.100.200",
		"::", "::1", "::2", "::10.0.0.1", "::ffff:8.8.8.8", "::ffff:127.0.0.1", "::ffff:0:8.8.8.8", "64:ff9b:1::1", "64:ff9a::1", "100::1", "100:0:0:1::1", "200::1",
		"2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:1::4", "2001:2::1", "2001:10::1", "2001:1ff::1", "2001:db8::1", "2002::1", "2002:808:808::1",
		"3fff::1", "3fff:fff:ffff::1", "4000::1", "5f00::1", "8000::1", "fc00::1", "fd00::1", "fd00:ec2::254", "fd20:ce::254", "fe00::1", "fe80::1", "fe80::a9fe:a9fe", "fec0::1", "ff02::1", "ffff::1",
	}
	for _, s := range public {
		if b := Find(netip.MustParseAddr(s)); b != nil {
			t.Errorf("%s is %s", s, b.What)
		}
	}
	for _, s := range closed {
		if Find(netip.MustParseAddr(s)) == nil {
			t.Errorf("%s is public", s)
		}
	}
	// NAT64 is judged by the IPv4 address inside.
	if Find(netip.MustParseAddr("64:ff9b::808:808")) != nil {
		t.Error("NAT64 is special by itself")
	}
}

func TestEmbedded(t *testing.T) {
	for in, want := range map[string][]string{
		"64:ff9b::10.0.0.1":                    {"10.0.0.1"},
		"::ffff:10.0.0.1":                      {"10.0.0.1"},
		"::ffff:0:10.0.0.1":                    {"10.0.0.1"},
		"::10.0.0.1":                           {"10.0.0.1"},
		"2002:a00:1::1":                        {"10.0.0.1"},
		"2001:0:a00:1:0:0:f5ff:fffe":           {"10.0.0.1", "10.0.0.1"},
		"2001:0:4136:e378:8000:63bf:3fff:fdd2": {"65.54.227.120", "192.0.2.45"},
		"2606:2800::5efe:10.0.0.1":             {"10.0.0.1"},
		"2606:2800::200:5efe:10.0.0.1":         {"10.0.0.1"},
		"2606:2800::10.0.0.1":                  nil,
		"10.0.0.1":                             nil,
		"64:ff9b:0:0:0:1:10.0.0.1":             nil,
	} {
		list, n := EmbeddedPair(netip.MustParseAddr(in))
		var got []string
		for _, a := range list[:n] {
			got = append(got, a.String())
		}
		if len(got) != len(want) || len(got) > 0 && got[0] != want[0] || len(got) > 1 && got[1] != want[1] {
			t.Errorf("in %s are %v, want %v", in, got, want)
		}
	}
}

// TestRanges checks that every range of the table has an effect: none is hidden by another of the same
// size, all are masked, and exceptions are inside the ranges that they except.
func TestRanges(t *testing.T) {
	seen := map[netip.Prefix]bool{}
	for _, b := range Ranges() {
		if b.Prefix != b.Prefix.Masked() || seen[b.Prefix] || b.What == "" {
			t.Errorf("range %s", b.Prefix)
		}
		seen[b.Prefix] = true
	}
	for _, family := range []string{"0.0.0.0/0", "::/0"} {
		if seen[netip.MustParsePrefix(family)] {
			t.Errorf("%s is special", family)
		}
	}
}
