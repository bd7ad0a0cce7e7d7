package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// BenchmarkThroughput carries bulk through the gateway, with client, server and both network
// stacks in this process: inspected over HTTP/1 and HTTP/2, and relayed. Two builds are compared
// by turns: compile both (go test -c), and run one after the other.
func BenchmarkThroughput(b *testing.B) {
	for _, h2 := range []bool{false, true} {
		name := map[bool]string{false: "http1", true: "http2"}[h2]
		for _, method := range []string{http.MethodGet, http.MethodPut} {
			b.Run(name+"/"+method, func(b *testing.B) { benchInspected(b, h2, method) })
		}
	}
	b.Run("relay/down", func(b *testing.B) { benchRelay(b, false) })
	b.Run("relay/up", func(b *testing.B) { benchRelay(b, true) })
}

const benchBulk = 64 << 20

func benchInspected(b *testing.B, h2 bool, method string) {
	o := newOrigin(b, true, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 256<<10))
		if r.Method == http.MethodGet {
			_, _ = io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(zeros{}, benchBulk), make([]byte, 256<<10))
		}
	})
	w := start(b, document(b, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	c, url := w.client(b, h2), fmt.Sprintf("https://api.example.com:%d/", o.port)
	carry := func() {
		var body io.Reader
		if method == http.MethodPut {
			body = io.LimitReader(zeros{}, benchBulk)
		}
		r, err := http.NewRequestWithContext(b.Context(), method, url, body)
		must(b, err)
		resp, err := c.Do(r)
		must(b, err)
		defer resp.Body.Close()
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, make([]byte, 256<<10))
		must(b, err)
	}
	carry()
	b.SetBytes(benchBulk)
	for b.Loop() {
		carry()
	}
}

// benchRelay sends bulk on a connection without inspection, and a byte back at its end.
func benchRelay(b *testing.B, up bool) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(b, err)
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	w := start(b, document(b, 1, "allow: [{host: api.example.com, passthrough: true}]\n"), apiHosts)
	b.SetBytes(benchBulk)
	for b.Loop() {
		inside, err := w.in.DialName(b.Context(), "api.example.com", port)
		must(b, err)
		outside, err := l.AcceptTCP()
		must(b, err)
		var from, to net.Conn = outside, inside
		if up {
			from, to = inside, outside
		}
		go func() {
			_, _ = io.CopyBuffer(struct{ io.Writer }{from}, io.LimitReader(zeros{}, benchBulk), make([]byte, 256<<10))
			_ = from.(interface{ CloseWrite() error }).CloseWrite()
		}()
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{to}, make([]byte, 256<<10))
		if err != nil || n != benchBulk {
			b.Fatalf("%d bytes arrived, %v", n, err)
		}
		_, _ = inside.Close(), outside.Close()
	}
}
