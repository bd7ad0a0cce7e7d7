package pull

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/spec"
)

// TestJudge checks that a registry may refer to this machine or a private network only if
// it is there itself.
func TestJudge(t *testing.T) {
	for from, to := range map[string]struct{ ok, refused []string }{
		"":          {[]string{"8.8.8.8"}, []string{"127.0.0.1", "10.0.0.1"}},
		"8.8.8.8":   {[]string{"1.1.1.1", "2606:4700::1111"}, []string{"127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "fe80::1", "fd00::1", "0.0.0.0", "::ffff:127.0.0.1", "64:ff9b::7f00:1"}},
		"10.0.0.1":  {[]string{"1.1.1.1", "192.168.1.1", "10.9.9.9", "fd00::1", "100.64.0.1"}, []string{"127.0.0.1", "169.254.169.254", "fe80::1", "100.100.100.200", "fd00:ec2::254"}},
		"127.0.0.1": {[]string{"1.1.1.1", "127.0.0.2", "::1", "10.9.9.9"}, []string{"169.254.169.254", "fd00:ec2::254", "0.0.0.0"}},
	} {
		g := &guard{host: "registry.example"}
		if from != "" {
			g.at = netip.MustParseAddr(from)
		}
		for _, a := range to.ok {
			if err := g.judgeAddress(netip.MustParseAddr(a)); err != nil {
				t.Errorf("from %s to %s: %v", from, a, err)
			}
		}
		for _, a := range to.refused {
			if err := g.judgeAddress(netip.MustParseAddr(a)); !errors.Is(err, spec.ErrDenied) {
				t.Errorf("from %s to %s: %v", from, a, err)
			}
		}
	}
}

// TestGuardDials checks that no forbidden address is dialled, and that a TLS registry
// cannot refer to a host without TLS.
func TestGuardDials(t *testing.T) {
	newBench(t)
	var asked atomic.Int32
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	private, clear := httptest.NewTLSServer(count), httptest.NewServer(count)
	defer private.Close()
	defer clear.Close()
	g := newGuard("registry.example", nil)
	g.scheme, g.at = "https", netip.MustParseAddr("8.8.8.8")
	defer g.CloseIdleConnections()
	for _, address := range []string{private.URL, strings.Replace(private.URL, "127.0.0.1", "localhost", 1), clear.URL} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		must(t, err)
		resp, err := g.RoundTrip(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		if !errors.Is(err, spec.ErrDenied) || asked.Load() != 0 {
			t.Errorf("%s: %v, %d were asked", address, err, asked.Load())
		}
	}
}

// TestRedirected checks that a registry of this machine may refer to this machine. If such
// a redirect is refused, the error names the target.
func TestRedirected(t *testing.T) {
	b, r := newBench(t), imagetest.NewRegistry(t)
	r.Publish("tools", "v1", small(t, "elsewhere"))
	to := ""
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.Contains(q.URL.Path, "/blobs/") {
			http.Redirect(w, q, to+q.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		http.Redirect(w, q, "http://"+r.Host+q.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer front.Close()
	name := strings.TrimPrefix(front.URL, "http://") + "/tools:v1"
	for _, bad := range []string{"https://169.254.169.254", "http://10.0.0.1"} {
		to = bad
		if _, err := b.do(t, image.Order{Pull: name}); !errors.Is(err, spec.ErrDenied) || !strings.Contains(err.Error(), strings.SplitN(bad, "/", 4)[2]) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	to = "http://" + r.Host
	if _, err := b.do(t, image.Order{Pull: name}); err != nil {
		t.Error(err)
	}
}
