package attacks

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/gateway/grpctest"
	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// callGRPC makes every kind of gRPC call to a server, with a token from the
// environment.
func callGRPC(server, token string) {
	c, err := grpctest.Dial(server, &tls.Config{}, nil, os.Getenv(token))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for _, call := range grpctest.Calls {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := call.Do(ctx, c); err != nil {
			fmt.Printf("no %s: %q\n", call.Name, err.Error())
		} else {
			fmt.Printf("GOT %s\n", call.Name)
		}
		cancel()
	}
	header, trailer, message, err := grpctest.Echo(context.Background(), c)
	fmt.Printf("echo: %q %q %q %v\n", header, trailer, message, err)
}

// TestInspectedGRPC has a gRPC client in a real sandbox talk to a gRPC server outside through a gateway
// that judges each call. The client notices only the calls that no rule covers. It never sees the value
// of a secret that goes with each call (A11, C2).
func TestInspectedGRPC(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		authority, err := ca.New("outside", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "[::]:50051")
		if err != nil {
			t.Fatal(err)
		}
		server := grpctest.Serve(l, func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return authority.Leaf(h.ServerName) })
		t.Cleanup(server.Stop)
		c.Env = append(c.Env, "SSL_CERT_FILE="+c.Write(t, filepath.Join(c.Work, "roots.pem"), string(authority.Certificate())))
		const host = "grpc.example.net:50051"
		const service = "/grpc.testing.TestService/"
		s.Leads("grpc.example.net", stage.Host4.String())
		me := c.Plant(t, c.Work)
		c.Must(t, "policy", "allow", host, "--method", "POST", "--path", service+"**")
		c.Must(t, "create", "--name", "box", "shell", c.Work)

		calls := func(refused ...string) string {
			t.Helper()
			out := c.Must(t, "exec", "box", me, "intruder", "grpc", host, "API_TOKEN")
			for _, call := range grpctest.Calls {
				got := strings.Contains(out, "GOT "+call.Name+"\n")
				if got == slices.Contains(refused, call.Name) {
					t.Errorf("%s: came through is %t:\n%s", call.Name, got, out)
				}
			}
			harness.WaitFor(t, harness.Timeout, "the server to see that calls are given up", func() bool {
				given, waiting := server.GivenUp()
				return given > 0 && waiting == 0
			})
			return out
		}
		calls()
		server.Saw()

		const value = "ghp_realrealrealrealrealrealrealrealreal"
		if r := c.RunInput(value, "secret", "set", "token", "--service", "github"); r.Code != 0 {
			t.Fatal(r)
		}
		c.Must(t, "secret", "lease", "token", "--sandbox", "box", "--host", host, "--bearer", "--env", "API_TOKEN")
		out := calls("compressed")
		methods, tokens := server.Saw()
		if strings.Contains(out, value) || !strings.Contains(out, "echo: ") || len(tokens) != len(methods) {
			t.Errorf("%d calls, %d with the secret:\n%s", len(methods), len(tokens), out)
		}
		for _, token := range tokens {
			if token != "Bearer "+value {
				t.Errorf("the server got %q", token)
			}
		}
		c.Must(t, "secret", "revoke", "--all")

		c.Must(t, "policy", "deny", host, "--method", "POST", "--path", service+"UnaryCall")
		out = c.Must(t, "exec", "-e", "API_TOKEN=", "box", me, "intruder", "grpc", host, "API_TOKEN")
		for _, name := range []string{"empty", "server stream", "client stream", "both stream", "no such method", "cancelled"} {
			if !strings.Contains(out, "GOT "+name+"\n") {
				t.Errorf("%s is refused, too:\n%s", name, out)
			}
		}
		if !strings.Contains(out, `no unary: "rpc error: code = PermissionDenied desc = bothy: `) || !strings.Contains(out, "http://policy.bothy/") {
			t.Errorf("of the refused method it hears\n%s", out)
		}
		if methods, _ := server.Saw(); slices.Contains(methods, service+"UnaryCall") {
			t.Errorf("the server saw %v", methods)
		}
		if log := c.Must(t, "policy", "log", "box"); !strings.Contains(log, service+"UnaryCall") {
			t.Errorf("the refusal is not in the log:\n%s", log)
		}
		c.Must(t, "rm", "-f", "box")
	})
}
