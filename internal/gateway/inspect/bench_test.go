package inspect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// BenchmarkKeepAlive is small requests over kept connections, client and server
// in this process: look at its profile, not at its time.
func BenchmarkKeepAlive(b *testing.B) {
	outside, err := ca.New("outside")
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
	inside, err := ca.New("inside")
	if err != nil {
		b.Fatal(err)
	}
	rule, err := policy.ParseRule(policy.Allow, "api.example.com")
	if err != nil {
		b.Fatal(err)
	}
	p, err := policy.Compile(1, policy.Input{Layer: policy.LayerUser, Block: policy.Block{Allow: []policy.Rule{rule}}})
	if err != nil {
		b.Fatal(err)
	}
	i := New(Config{
		Still: func(Host, netip.Addr) bool { return true },
		Judge: func(h Host, r *policy.Request) policy.Decision {
			return p.Decide(policy.Query{Stage: policy.StageRequest, Name: h.Name, Port: h.Port, Request: r, Now: time.Now()})
		},
		Dial: func(context.Context, Host) (relay.Conn, error) {
			c, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				return nil, err
			}
			return relay.TCP{TCPConn: c.(*net.TCPConn)}, nil
		},
		Secrets:     func() *inject.Set { return nil },
		Certificate: inside.Leaf, Roots: roots, Log: func(spec.NetworkRecord, *policy.Decision) {},
	})
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
				_ = i.Serve(context.Background(), relay.TCP{TCPConn: c}, nil, Host{Name: "api.example.com", Port: 443, TLS: true}, &relay.Counts{}, &Track{})
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
