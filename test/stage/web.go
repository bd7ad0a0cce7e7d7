package stage

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
)

// Web serves HTTP over TLS, 1 and 2, under any name. It returns the certificate of the authority that
// signs its certificates.
func Web(t *testing.T, l net.Listener, h http.Handler) (roots string) {
	t.Helper()
	authority, err := ca.New("outside", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return authority.Leaf(h.ServerName) }}
	_ = server.Listener.Close()
	server.Listener = l
	server.StartTLS()
	t.Cleanup(server.Close)
	return string(authority.Certificate())
}
