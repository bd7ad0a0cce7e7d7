package spec

import (
	"encoding/json"
	"errors"
	"net/netip"
	"testing"
)

func TestParsePort(t *testing.T) {
	tests := []struct {
		text, ip   string
		host, port uint16
	}{
		{"3000", "", 0, 3000},
		{"3000/tcp", "", 0, 3000},
		{"8080:3000", "", 8080, 3000},
		{"0:3000", "", 0, 3000},
		{"127.0.0.1:8080:3000", "127.0.0.1", 8080, 3000},
		{"127.0.0.1::3000", "127.0.0.1", 0, 3000},
		{"0.0.0.0:8080:3000/tcp", "0.0.0.0", 8080, 3000},
		{"[::1]:8080:3000", "::1", 8080, 3000},
		{"[::]::3000", "::", 0, 3000},
		{"65535:1", "", 65535, 1},
	}
	for _, tt := range tests {
		p, err := ParsePort(tt.text)
		var ip netip.Addr
		if tt.ip != "" {
			ip = netip.MustParseAddr(tt.ip)
		}
		if want := (Port{ip, tt.host, tt.port, "tcp"}); err != nil || p != want {
			t.Errorf("%s: %+v, %v", tt.text, p, err)
		}
		if again, err := ParsePort(p.String()); err != nil || again != p {
			t.Errorf("%s becomes %s, which is %+v, %v", tt.text, p, again, err)
		}
		b, err := json.Marshal(p)
		var q Port
		if err == nil {
			err = json.Unmarshal(b, &q)
		}
		if err != nil || q != p {
			t.Errorf("%s as JSON: %s, %+v, %v", tt.text, b, q, err)
		}
	}
}

func TestParsePortRefuses(t *testing.T) {
	for _, text := range []string{
		"", ":", "0", "65536", "-1", "+1", "03000", "3000-3010", "8080-8090:3000", "http", "3000/udp", "3000/udp4", "3000/sctp", "3000/",
		":3000", "8080:", "8080:0", "1.2.3:80:80", "localhost:80:80", "::1:80:80", "[::1:80:80", "[127.0.0.1]:80:80", "127.0.0.1:80:80:80",
		"[::ffff:127.0.0.1]:80:80", "[fe80::1%eth0]:80:80", "224.0.0.1:80:80", "80 :80", "3000/tcp/tcp", "0x50", "８０",
	} {
		if p, err := ParsePort(text); err == nil {
			t.Errorf("%q is %+v", text, p)
		} else if !errors.Is(err, ErrUsage) {
			t.Errorf("%q: %v is no mistake of usage", text, err)
		}
	}
}

func TestPortCovers(t *testing.T) {
	full, _ := ParsePort("127.0.0.1:8080:3000")
	for text, want := range map[string]bool{
		"3000": true, "8080:3000": true, "127.0.0.1:8080:3000": true, "127.0.0.1::3000": true,
		"8080": false, "8081:3000": false, "0.0.0.0:8080:3000": false, "8080:3001": false,
	} {
		p, err := ParsePort(text)
		if err != nil || p.Covers(full) != want {
			t.Errorf("%s: %t, %v", text, p.Covers(full), err)
		}
	}
}
