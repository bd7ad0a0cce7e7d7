package attacks

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/trust/clienttest"
	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// registry is a real server for all clients, and records the host names in their requests. The
// gateway trusts it; programs inside do not.
type registry struct {
	http.Handler
	mu    sync.Mutex
	hosts []string
}

func (s *registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.hosts = append(s.hosts, strings.TrimSuffix(r.Host, ":443"))
	s.mu.Unlock()
	s.Handler.ServeHTTP(w, r)
}

func (s *registry) askedAs(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.hosts, host)
}

// TestClientsThroughTheGateway has unmodified programs inside talk to a real server, and checks that
// they get their data. The gateway between them looks into every request. A program that does not trust
// the gateway would fail: no program inside knows the server's authority.
func TestClientsThroughTheGateway(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		if c.Name != harness.Callers()[0] {
			return // the programs are the same
		}
		server := &registry{Handler: clienttest.Handler()}
		roots := stage.Web(t, s.Take(t, "443"), server)
		c.Env = append(c.Env, "SSL_CERT_FILE="+c.Write(t, filepath.Join(c.Work, "roots.pem"), roots))
		create := []string{"create", "--name", "box"}
		if dir := toolchain(t.Context(), c); dir != "" {
			create = append(create, "-v", dir+":"+rust+":ro")
		}
		c.Must(t, append(create, "shell", c.Work)...)
		c.Must(t, "exec", "box", "curl", "--version")
		c.Must(t, "policy", "allow", "*.trust.example.com:443", "--method", "GET", "--method", "HEAD", "--sandbox", "box")
		other, err := ca.New("other", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		others := c.Write(t, filepath.Join(c.Work, "others.pem"), string(other.Certificate()))
		const doubt = "doubt.trust.example.com"
		if r := inside(c, []string{"curl", "-sSf", "--cacert", others, "--capath", c.Work, "https://" + doubt}); r.Code == 0 || server.askedAs(doubt) {
			t.Fatalf("who trusts somebody else gets an answer: %v", r)
		}
		for _, client := range clienttest.Clients {
			t.Run(client.Name, func(t *testing.T) {
				for name, content := range client.Files {
					c.Write(t, filepath.Join(c.Work, name), content)
				}
				if r := inside(c, client.Probe()); r.Code != 0 {
					if slices.Contains(rare, client.Name) {
						t.Skipf("skipped: it is not there inside: %s", r.Stderr)
					}
					harness.Missing(t, "it is not there inside: %s", r.Stderr)
				}
				gets(t, c, server, client.Name+".trust.example.com", client, "PATH="+programs)
				if client.Bundle {
					gets(t, c, server, "bare-"+client.Name+".trust.example.com", client, "-i", "PATH="+programs, "HOME="+c.Home)
				}
			})
		}
		c.Must(t, "rm", "-f", "box")
	})
}

// rare are clients that few machines have.
var rare = []string{"cargo", "perl", "ruby", "php"}

// gets has a client ask a host, in an environment, and checks the server's requests and the log.
func gets(t *testing.T, c *harness.Caller, server *registry, host string, client clienttest.Client, environment ...string) {
	t.Helper()
	r := inside(c, append(append([]string{"env"}, environment...), client.Command(host+":443")...))
	if r.Code != 0 || !server.askedAs(host) {
		t.Errorf("with %q: the server was asked is %t: %v", environment, server.askedAs(host), r)
	}
	for line := range strings.Lines(c.Must(t, "logs", "--source", "network", "--json", "box")) {
		var record spec.NetworkRecord
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if record.Event == spec.NetworkRequest && record.Name == host && record.Status == http.StatusOK {
			return
		}
	}
	t.Errorf("with %q: no request to %s that was answered with 200 is in the log", environment, host)
}

// programs is the directory of the clients. rust is where a host's cargo is shown that is not in
// programs.
const (
	rust     = "/mnt/rust"
	programs = "/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin:" + rust + "/bin"
)

// toolchain returns the directory of a cargo that rustup installed for the user who runs the test. It is
// in a home, which no sandbox sees. It is "" if the caller is another user.
func toolchain(ctx context.Context, c *harness.Caller) string {
	out, err := exec.CommandContext(ctx, "rustup", "which", "cargo").Output()
	if err != nil || c.UID != os.Geteuid() {
		return ""
	}
	return filepath.Dir(filepath.Dir(strings.TrimSpace(string(out))))
}

func inside(c *harness.Caller, command []string) harness.Result {
	return c.Run(append([]string{"exec", "-e", "PATH=" + programs, "box"}, command...)...)
}
