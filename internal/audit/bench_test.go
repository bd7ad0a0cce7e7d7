package audit

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// BenchmarkWrite measures the record of a request that is allowed.
func BenchmarkWrite(b *testing.B) {
	l, err := Open(filepath.Join(b.TempDir(), "log"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	r := spec.NetworkRecord{
		Sandbox: "box", Generation: 3, Verdict: spec.VerdictAllow, Name: "api.example.com", Addr: netip.MustParseAddr("203.0.113.9"),
		Port: 443, Protocol: "HTTP/1.1", Method: "GET", Path: "/v1/things/17", Status: 200, Rule: "api.example.com", Source: "user",
		Reason: `rule "api.example.com" (user) allows GET api.example.com:443/v1/things/17`, Down: 100, Duration: 3,
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Write(spec.NetworkRequest, r); err != nil {
			b.Fatal(err)
		}
	}
}
