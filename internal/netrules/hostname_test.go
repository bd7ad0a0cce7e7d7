package netrules

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestAnswerHost checks the answers for names that no rule is about, and that rules are asked about others.
func TestAnswerHost(t *testing.T) {
	closed := &spec.Sandbox{Name: "box"}
	open := &spec.Sandbox{Name: "box", HostPorts: []uint16{5432, 8080}}
	for _, c := range []struct {
		sb      *spec.Sandbox
		asked   string
		allowed bool
		says    string
	}{
		{nil, "host.bothy", false, "bothy ports SANDBOX --allow-host-port PORT"},
		{nil, "host.bothy:8080", false, "--sandbox NAME"},
		{closed, "host.bothy:8080", false, "bothy ports box --allow-host-port 8080"},
		{closed, "host.bothy", false, "no port of the host is open"},
		{open, "host.bothy:8080", true, "port 8080 of the host is open to sandbox box"},
		{open, "HOST.bothy.:8080", true, "port 8080"},
		{open, "http://host.bothy:8080/x", true, "port 8080"},
		{open, "http://host.bothy/x", false, "--allow-host-port 80"},
		{open, "host.docker.internal:5432", true, "port 5432"},
		{open, "host.bothy", true, "5432 8080"},
		{open, "localhost:8080", false, "localhost is the sandbox itself"},
		{open, "https://app.localhost", false, "bothy ports box --allow-host-port 443"},
	} {
		a := AnswerHost(c.sb, c.asked)
		if a == nil || a.Allowed != c.allowed || !strings.Contains(strings.Join(a.Lines, "\n"), c.says) {
			t.Errorf("%q: %+v", c.asked, a)
		}
	}
	for _, asked := range []string{"example.com", "example.com:443", "127.0.0.1:80", "host.bothy.example.com", "*.bothy", "dev.bothy:8080", "bothy", "x.host.bothy", "x.host.docker.internal:5432", "https://example.com/host.bothy", "", ":", "host.bothy:x", "[::1]:80", "://host.bothy"} {
		if a := AnswerHost(open, asked); a != nil {
			t.Errorf("%q: %+v", asked, a)
		}
	}
}
