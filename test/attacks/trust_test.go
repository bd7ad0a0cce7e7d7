package attacks

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/trust/clienttest"
	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// TestClientsTrustTheGateway: real programs inside speak TLS with the gateway
// as they come. Their requests are refused, and nobody is asked for that: a
// refused request was sent by a program that trusted whom it spoke to.
func TestClientsTrustTheGateway(t *testing.T) {
	c := harness.New(t, harness.Callers()[0])
	c.Must(t, "create", "--name", "box", "shell", c.Work)
	c.Must(t, "policy", "allow", "*.trust.example.com:443", "--method", "PATCH", "--sandbox", "box")
	other, err := ca.New("other")
	if err != nil {
		t.Fatal(err)
	}
	others := c.Write(t, filepath.Join(c.Work, "others.pem"), string(other.Certificate()))
	if asks(t, c, "doubt.trust.example.com", []string{"curl", "--cacert", others, "--capath", c.Work, "https://doubt.trust.example.com"}) {
		t.Fatal("who trusts somebody else is taken for one who does")
	}
	for _, client := range clienttest.Clients {
		t.Run(client.Name, func(t *testing.T) {
			for name, content := range client.Files {
				c.Write(t, filepath.Join(c.Work, name), content)
			}
			if r := inside(c, client.Probe()); r.Code != 0 {
				t.Skipf("skipped: it is not there inside: %s", r.Stderr)
			}
			host := client.Name + ".trust.example.com"
			if !asks(t, c, host, client.Command(host+":443")) {
				t.Error("it does not trust the gateway")
			}
			if !client.Bundle {
				return
			}
			host = "bare-" + host
			if !asks(t, c, host, append([]string{"env", "-i", "PATH=" + programs, "HOME=" + c.Home}, client.Command(host+":443")...)) {
				t.Error("it does not trust the gateway if it has no variables")
			}
		})
	}
}

// programs is where the clients are.
const programs = "/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin"

func inside(c *harness.Caller, command []string) harness.Result {
	return c.Run(append([]string{"exec", "-e", "PATH=" + programs, "box"}, command...)...)
}

// asks runs a client and looks for its request in the log. A client that makes
// none ends with success if it trusts its server.
func asks(t *testing.T, c *harness.Caller, host string, command []string) bool {
	t.Helper()
	r := inside(c, command)
	for line := range strings.Lines(c.Must(t, "logs", "--source", "network", "--json", "box")) {
		var record spec.NetworkRecord
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if record.Event == spec.NetworkRequest && record.Name == host {
			return true
		}
	}
	t.Log(r)
	return r.Code == 0
}
