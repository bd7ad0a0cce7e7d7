package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/gateway/grpctest"
	"github.com/bothy-dev/bothy/spec"
)

// newGRPC returns a gRPC server outside, with the option that makes a gateway trust it.
func newGRPC(t *testing.T) (server *grpctest.Server, port uint16, trusting func(*Config)) {
	t.Helper()
	authority, err := ca.New("outside", time.Now)
	must(t, err)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	server = grpctest.Serve(l, func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return authority.Leaf(h.ServerName) })
	t.Cleanup(server.Stop)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Certificate())
	return server, uint16(l.Addr().(*net.TCPAddr).Port), func(c *Config) { c.Roots = roots }
}

// grpc is a gRPC client inside.
func (w *world) grpc(t *testing.T, host string, port uint16, token string) *grpctest.Client {
	t.Helper()
	dial := func(ctx context.Context, to string) (net.Conn, error) { return w.dialName(ctx, "tcp", to) }
	c, err := grpctest.Dial(fmt.Sprintf("%s:%d", host, port), w.trust(), dial, token)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// callTime bounds one call that hangs.
const callTime = time.Minute

// eventually waits for something that is about to happen.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Errorf("waited in vain: %s", what)
}

// TestGRPC checks that a gRPC client and a gRPC server do not notice the gateway between them, in
// any kind of call, with and without a secret that is lent for the server.
func TestGRPC(t *testing.T) {
	for _, lent := range []bool{false, true} {
		t.Run(fmt.Sprintf("lent %t", lent), func(t *testing.T) {
			server, port, trusting := newGRPC(t)
			w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, trusting)
			token := ""
			if lent {
				must(t, w.SetLoans(loan()))
				token = placeholder
			}
			for _, call := range grpctest.Calls {
				t.Run(call.Name, func(t *testing.T) { tryCall(t, w.grpc(t, "api.example.com", port, token), server, call, lent) })
			}
			w.valueless(t)
		})
	}
}

func tryCall(t *testing.T, c *grpctest.Client, server *grpctest.Server, call grpctest.Call, lent bool) {
	t.Helper()
	before, _ := server.GivenUp()
	ctx, cancel := context.WithTimeout(t.Context(), callTime)
	defer cancel()
	err := call.Do(ctx, c)
	if lent && call.Packed { // an answer that cannot be inspected
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "compressed messages") {
			t.Error(err)
		}
	} else if err != nil {
		t.Error(err)
	}
	eventually(t, "the server to see that calls are given up", func() bool {
		given, waiting := server.GivenUp()
		return waiting == 0 && given-before >= call.GivesUp
	})
	methods, tokens := server.Saw()
	if len(methods) == 0 && !call.Unseen {
		t.Error("the server saw nothing of it")
	}
	for _, token := range tokens {
		if token != "Bearer "+realValue {
			t.Errorf("the server got %q", token)
		}
	}
	if lent && len(tokens) != len(methods) {
		t.Errorf("of %d calls %d had the secret", len(methods), len(tokens))
	}
}

// TestGRPCServersClock checks that a server may end a call by its own clock, before the client's
// does. The client sees that the deadline is over, not a broken call.
func TestGRPCServersClock(t *testing.T) {
	_, port, trusting := newGRPC(t)
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, trusting)
	client := &http.Client{Transport: &http.Transport{
		DialContext: w.dialName, TLSClientConfig: w.trust(), ForceAttemptHTTP2: true,
	}}
	defer client.CloseIdleConnections()
	for name, messages := range map[string]int{"before the answer": 0, "within the answer": 1} {
		t.Run(name, func(t *testing.T) {
			sends, body := io.Pipe()
			defer func() { _ = body.Close() }()
			go func() { _, _ = body.Write(make([]byte, 5*messages)) }() // of nothing, each
			to := fmt.Sprintf("https://api.example.com:%d%s", port, pb.TestService_FullDuplexCall_FullMethodName)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, sends)
			must(t, err)
			for name, value := range map[string]string{"Content-Type": "application/grpc", "Te": "trailers", "Grpc-Timeout": "300m", "X-Wait": "yes"} {
				r.Header.Set(name, value)
			}
			resp, err := client.Do(r)
			must(t, err)
			defer func() { _ = resp.Body.Close() }()
			_, err = io.Copy(io.Discard, resp.Body)
			must(t, err)
			if got := resp.Header.Get("Grpc-Status") + resp.Trailer.Get("Grpc-Status"); got != "4" {
				t.Errorf("the client hears %q: %v, then %v", got, resp.Header, resp.Trailer)
			}
		})
	}
}

// TestC2EchoOverGRPC checks that a secret that a server sends back in the header, in a message or
// in the trailer does not arrive inside, and that the message can still be read (C2).
func TestC2EchoOverGRPC(t *testing.T) {
	_, port, trusting := newGRPC(t)
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, trusting)
	must(t, w.SetLoans(loan()))
	header, trailer, message, err := grpctest.Echo(t.Context(), w.grpc(t, "api.example.com", port, placeholder))
	must(t, err)
	told := fmt.Sprintf("%q %q %q", header, trailer, message)
	if strings.Contains(told, realValue) || message == "" {
		t.Error(told)
	}
}

// TestGRPCMethodIsRefused checks that methods are judged call by call. A client learns in gRPC why
// one was refused, and goes on with others over the same connection.
func TestGRPCMethodIsRefused(t *testing.T) {
	server, port, trusting := newGRPC(t)
	w := start(t, document(t, 5, `
allow: [{host: api.example.com, methods: [POST], paths: ["/grpc.testing.TestService/**"]}]
deny: [{host: api.example.com, methods: [POST], paths: ["/grpc.testing.TestService/UnaryCall"]}]
`), apiHosts, trusting)
	c := w.grpc(t, "api.example.com", port, "")
	for range 2 {
		if _, err := c.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
			t.Error(err)
		}
		_, err := c.UnaryCall(t.Context(), &pb.SimpleRequest{})
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "bothy: ") || !strings.Contains(err.Error(), "http://policy.bothy/") {
			t.Errorf("the client sees %v", err)
		}
	}
	stream, err := c.FullDuplexCall(t.Context())
	must(t, err)
	must(t, stream.CloseSend())
	if methods, _ := server.Saw(); slices.Contains(methods, pb.TestService_UnaryCall_FullMethodName) || len(methods) == 0 {
		t.Errorf("the server saw %v", methods)
	}
	r := w.record(t, "the refusal", func(r spec.NetworkRecord) bool {
		return r.Verdict == spec.VerdictDeny && r.Event == spec.NetworkRequest
	})
	if r.Method != http.MethodPost || r.Path != pb.TestService_UnaryCall_FullMethodName || r.Status != http.StatusForbidden || r.Generation != 5 {
		t.Errorf("the record says %+v", r)
	}
}

// TestB5StreamEndsWithItsRule checks that streams end that the rules no longer allow, and that
// their client learns why (B5).
func TestB5StreamEndsWithItsRule(t *testing.T) {
	server, port, trusting := newGRPC(t)
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, trusting)
	stream, err := w.grpc(t, "api.example.com", port, "").FullDuplexCall(t.Context())
	must(t, err)
	must(t, stream.Send(&pb.StreamingOutputCallRequest{}))
	_, err = stream.Recv()
	must(t, err)
	w.SetPolicy(document(t, 2, "inspect: all\nallow: [other.example.com]\n"))
	if m, err := stream.Recv(); err == nil {
		t.Errorf("it goes on: %v", m)
	}
	server.Stop() // it waits for its handlers
	w.record(t, "the end", func(r spec.NetworkRecord) bool {
		return r.Event == spec.NetworkFlow && strings.Contains(r.Reason, "policy changed")
	})
}
