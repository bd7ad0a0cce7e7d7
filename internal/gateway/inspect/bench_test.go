package inspect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
)

// BenchmarkKeepAlive sends small requests over kept connections, with client and server in this process:
// look at its profile, not at its time.
func BenchmarkKeepAlive(b *testing.B) {
	outside, err := ca.New("outside", time.Now)
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "small answer")
	}))
	server.TLS = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return outside.Leaf("api.example.com") }}
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(outside.Certificate())
	inside, err := ca.New("inside", time.Now)
	if err != nil {
		b.Fatal(err)
	}
	conf := passing(b, "api.example.com", server.Listener.Addr())
	conf.Certificate, conf.Roots = inside.Leaf, roots
	i := New(conf)
	defer i.Close()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			go func() {
				_ = i.Serve(context.Background(), relay.TCP{TCPConn: c}, nil, upstream.Host{Name: "api.example.com", Port: 443, TLS: true}, &relay.Counts{}, &Track{})
			}()
		}
	}()
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(inside.Certificate())
	client := &http.Client{Transport: &http.Transport{
		DialContext:         func(context.Context, string, string) (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) },
		TLSClientConfig:     &tls.Config{RootCAs: trusted},
		MaxIdleConnsPerHost: 16,
	}}
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	work := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			for range work {
				resp, err := client.Get("https://api.example.com/")
				if err != nil {
					b.Error(err)
					continue
				}
				if resp.StatusCode != http.StatusOK {
					b.Error(resp.Status)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
}
