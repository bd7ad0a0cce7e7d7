package attacks

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// TestDeadResolver checks a host whose name server is silent or fails. No host is reached by name, and
// no other name server is asked. Programs inside get an error, which the log has. Connections without
// names continue, and all others work again when the server is back.
func TestDeadResolver(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		const address = "203.14.0.1:443"
		p := newSpy(t, c, s)
		c.Must(t, "policy", "allow", allowed4+":80", "--method", "GET")
		c.Must(t, "policy", "allow", address)
		leaves := append([]string{"tcp " + stage.Host4.String() + ":80", "tcp " + address}, controlLeaves...)
		web := func() harness.Result {
			return c.Run("exec", "box", "curl", "-sS", "-i", "--max-time", "60", "http://"+allowed4+"/")
		}
		try := func() string {
			return c.Must(t, append([]string{"exec", "box"}, p.argv("hello="+address)...)...)
		}
		p.reaches(t, try())
		if r := web(); !strings.Contains(r.Stdout, "welcome") {
			t.Errorf("%v", r)
		}
		s.OnlyLeft(t, leaves...)
		nobodyThere(t, p, s)
		for _, ill := range []stage.Illness{stage.Mute, stage.Failing} {
			s.Forget(t)
			s.Saw()
			s.Falls(ill)
			out := try()
			if !strings.Contains(out, "GOT hello="+address) || strings.Contains(out, "GOT "+control4) || strings.Contains(out, "GOT "+control6) {
				t.Errorf("with illness %d of the name server:\n%s", ill, out)
			}
			r := web()
			if !strings.Contains(r.Stdout, " 502") || !strings.Contains(r.Stdout, "the host's resolver does not tell where "+allowed4+" is") {
				t.Errorf("with illness %d of the name server: %v", ill, r)
			}
			s.OnlyLeft(t, "dns "+allowed4, "dns "+allowed6, "tcp "+address)
			if log := c.Must(t, "policy", "log", "box"); !regexp.MustCompile(`(?m)^box +` + allowed6 + `:443 +error .* the host's resolver ` + stage.Resolver.String() + `:53 does not tell where ` + allowed6 + ` is: `).MatchString(log) {
				t.Errorf("the log does not tell:\n%s", log)
			}
			s.Falls(stage.Healthy)
			p.reaches(t, try())
			if r := web(); !strings.Contains(r.Stdout, "welcome") {
				t.Errorf("when the name server is well again: %v", r)
			}
		}
		p.ends(t)
	})
}

// nobodyThere checks that a connection to a port without a server is refused at once inside, and that
// the log tells which address did not answer, and why.
func nobodyThere(t *testing.T, p *spy, s *stage.Stage) {
	t.Helper()
	const port = ":9999"
	at := stage.Host4.String() + port
	p.Must(t, "policy", "allow", allowed4+port, "203.14.0.1"+port)
	out := p.tries(t, "hello="+allowed4+port, "hello=203.14.0.1"+port)
	if strings.Count(out, "connect: connection refused") != 2 {
		t.Errorf("inside it is not refused:\n%s", out)
	}
	log := p.Must(t, "policy", "log", "box")
	for who, where := range map[string]string{allowed4: at, "203.14.0.1": "203.14.0.1" + port} {
		// More than once if the answer took so long that the inside asked again.
		if !regexp.MustCompile(`(?m)^box +` + who + port + ` +error +[1-9]\d* .* ` + where + ` does not answer: connection refused$`).MatchString(log) {
			t.Errorf("of %s the log does not tell:\n%s", who, log)
		}
	}
	if list := flows(t, p.Caller, allowed4); !slices.ContainsFunc(list, func(r spec.NetworkRecord) bool {
		return r.Port == 9999 && r.Verdict == spec.VerdictError && r.Addr == stage.Host4 && r.State == ""
	}) {
		t.Errorf("it is recorded as %+v", list)
	}
	s.OnlyLeft(t, append([]string{"tcp " + stage.Host4.String() + ":80", "tcp 203.14.0.1:443", "tcp " + at, "tcp 203.14.0.1" + port}, controlLeaves...)...)
}
