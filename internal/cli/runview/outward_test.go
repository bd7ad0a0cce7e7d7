package runview

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

func TestRefusalText(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 30, 0, 0, time.Local)
	for _, tt := range []struct {
		of   spec.Limited
		want string
	}{
		{spec.Limited{Status: 529}, "a.example refused a question at 12:30:00: 529, it is overloaded; it does not say until when"},
		{spec.Limited{Status: 429, Until: at.Add(time.Hour)}, "a.example refused a question at 12:30:00: 429, an allowance is used up; it may be asked again at 2026-11-29 13:30:00"},
		{spec.Limited{Status: 401}, "a.example refused a question at 12:30:00: 401, the key or the login is not accepted; it does not say until when"},
		{spec.Limited{Status: 418}, "a.example refused a question at 12:30:00: status 418; it does not say until when"},
		{spec.Limited{}, "a.example refused a question at 12:30:00; it does not say until when"},
		{spec.Limited{Why: "refused\x1b[2J\n2026-01-01  completed (done)"}, "a question to a.example came to nothing at 12:30:00: refused 2026-01-01  completed (done)"},
	} {
		tt.of.At, tt.of.Host = at, "a.example"
		if got := refusalText(&tt.of); got != tt.want+", and none was answered since" {
			t.Errorf("of %+v it is %q", tt.of, got)
		}
	}
	if got := refusalText(&spec.Limited{Host: "a.example", Why: strings.Repeat("x", 9000)}); len(got) > MaxRefusalText+100 {
		t.Errorf("it has %d bytes", len(got))
	}
}

// TestRefusalsAreToldOnce checks that each reason, and its end, is reported once where no page is
// shown.
func TestRefusalsAreToldOnce(t *testing.T) {
	at := time.Now()
	busy := &spec.Limited{At: at, Host: "a.example", Status: 529}
	again := &spec.Limited{At: at.Add(time.Second), Host: "a.example", Status: 529}
	keyless := &spec.Limited{At: at.Add(2 * time.Second), Host: "a.example", Status: 401}
	var r refusals
	for n, step := range []struct {
		now  *spec.Limited
		want string
	}{
		{nil, ""}, {busy, refusalText(busy)}, {again, ""}, {keyless, refusalText(keyless)}, {nil, "models answer again"}, {nil, ""}, {keyless, refusalText(keyless)},
	} {
		if got := r.Tell(step.now); got != step.want {
			t.Errorf("step %d tells %q", n, got)
		}
	}
}

// TestOutwardLines checks that the page shows telemetry apart, and why models do not answer.
func TestOutwardLines(t *testing.T) {
	at := time.Now()
	o := outward{refused: []string{"registry.example:443 (2)"}, telemetry: []string{"ab.chatgpt.com:443 (9)"}, denied: &spec.Limited{At: at, Host: "api.example", Status: 529}}
	var got []string
	for _, l := range o.pageLines() {
		line := ""
		for _, p := range l {
			line += p.Text
		}
		got = append(got, line)
	}
	want := []string{
		"provider   api.example refused a question at " + at.Local().Format(time.TimeOnly) + ": 529, it is overloaded; it does not say until when, and none was answered since",
		"refused    registry.example:443 (2)", "telemetry  refused, which no work needs: ab.chatgpt.com:443 (9)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestShowTraffic checks that a page shows the hosts that a program inside asked for so that they cannot play
// with the terminal, and the errors beside them.
func TestShowTraffic(t *testing.T) {
	o := showTraffic(runstate.Traffic{Refused: map[string]int64{"b.example": 2, "\x1b[2Ja": 1}, Telemetry: map[string]int64{"t": 3}, Unread: []error{errors.New("no bill")}})
	if want := []string{"a (1)", "b.example (2)", "no bill"}; !slices.Equal(o.refused, want) || !slices.Equal(o.telemetry, []string{"t (3)"}) {
		t.Errorf("%q, %q", o.refused, o.telemetry)
	}
}

// TestWhyText checks that the list of runs says until when one waits, unless it says why it needs a person.
func TestWhyText(t *testing.T) {
	until := time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local)
	for want, v := range map[string]runstate.Summary{
		"d": {Detail: "d"},
		"waits until 2026-11-22 12:00:00, the provider of a model is overloaded": {Detail: "d", WaitingFor: run.Overloaded, Until: until},
	} {
		if got := WhyText(v); got != want {
			t.Errorf("%+v: %s", v, got)
		}
	}
}
