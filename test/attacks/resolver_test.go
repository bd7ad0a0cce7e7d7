package attacks

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// TestDeadResolver: while the host's name server is silent or fails, nothing is
// reached by name, and nobody else is asked; who tries is told, inside and in the
// log. What needs no names goes on, and so does all else when the server is back.
func TestDeadResolver(t *testing.T) {
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
			if log := c.Must(t, "logs", "--source", "network", "box"); !strings.Contains(log, "name="+allowed6+" ") || !strings.Contains(log, "verdict=error") {
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
