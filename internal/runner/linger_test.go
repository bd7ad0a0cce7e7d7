package runner

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/spec"
)

// chatty is an agent that reports its end and its message in one line or in several.
var chatty = spec.AgentHeadless{
	Events: &spec.AgentReading{Rules: []spec.AgentRule{
		{When: spec.AgentEvent{"type": "bye"}, Kind: spec.TalkEnd, Text: spec.AgentPaths{"why"}},
		{When: spec.AgentEvent{"say": "*"}, Kind: spec.TalkMessage, Role: spec.RoleAgent, Text: spec.AgentPaths{"say"}},
		{When: spec.AgentEvent{"type": "beat"}, Kind: spec.TalkIgnore},
	}},
	End:     []spec.AgentEvent{{"type": "bye"}},
	Success: []spec.AgentEvent{{"type": "bye", "good": "true"}},
}

// hears parses the lines in order.
func hears(t *testing.T, lines ...string) *report {
	t.Helper()
	rules, err := transcript.ForOutput(&chatty)
	if err != nil {
		t.Fatal(err)
	}
	a := &report{}
	var r *transcript.Reader
	r = transcript.NewReader(rules, func(ev spec.TranscriptEvent) error { a.hearEvent(ev, r.Lines()); return nil })
	for _, line := range lines {
		if _, err := r.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// TestCut checks that an interrupted agent is judged by its report, if it had reported its end.
func TestCut(t *testing.T) {
	const done, said = `{"type":"bye","good":true}`, `{"say":"all done"}`
	failed := errors.New("the pipe broke")
	for name, c := range map[string]struct {
		lines   []string
		by      error
		verdict string
		why     string
	}{
		"it ended well":              {[]string{said, done}, &lingerError{time.Second}, spec.VerdictOK, ""},
		"there is more in the line":  {[]string{`{"type":"bye","good":true,"say":"all done"}`}, &lingerError{time.Second}, spec.VerdictOK, ""},
		"time was over then":         {[]string{said, done}, &headless.CutShort{Why: spec.ErrTimeout}, spec.VerdictOK, ""},
		"it was silent then":         {[]string{said, done, `{"type":"beat"}`, "no JSON"}, &idleError{time.Second}, spec.VerdictOK, ""},
		"it ended badly":             {[]string{said, `{"type":"bye","good":false,"why":"no model"}`}, &lingerError{time.Second}, spec.VerdictFailed, "no model"},
		"it went on":                 {[]string{said, done, said}, &idleError{time.Second}, spec.VerdictFailed, "it was idle for 1s, and was ended"},
		"it went on to another end":  {[]string{said, done, said, done}, &idleError{time.Second}, spec.VerdictOK, ""},
		"it said nothing of its end": {[]string{said}, &idleError{time.Second}, spec.VerdictFailed, "it was idle for 1s, and was ended"},
		"it did nothing":             {[]string{done}, &lingerError{time.Second}, spec.VerdictFailed, "it ended well, and said and did nothing"},
	} {
		a := hears(t, c.lines...)
		if err := a.endEarly(c.by); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		w := a.judgeWork()
		if w.Verdict != c.verdict || w.Error != c.why {
			t.Errorf("%s: it is %s: %s", name, w.Verdict, w.Error)
		}
		if (w.Stayed != "") != (a.ended > 0) {
			t.Errorf("%s: what became of it: %q", name, w.Stayed)
		}
		if err := a.endEarly(failed); !errors.Is(err, failed) {
			t.Errorf("%s: %v is no other error", name, err)
		}
	}
}

// TestLinger checks that only an agent that has reported its end, and prints nothing more, is
// stopped.
func TestLinger(t *testing.T) {
	const after = 15 * time.Second
	for name, c := range map[string]struct {
		ended  func(since time.Duration) bool
		prints time.Duration // for this long
		gone   time.Duration // 0: never
	}{
		"it never ends":       {func(time.Duration) bool { return false }, time.Minute, 0},
		"it ends at once":     {func(time.Duration) bool { return true }, 0, after},
		"it prints for a bit": {func(time.Duration) bool { return true }, 20 * time.Second, 20*time.Second + after},
		"it goes on":          {func(d time.Duration) bool { return d < time.Second }, 2 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				enough := make(chan struct{})
				l := newLinger(after, func() bool { return c.ended(time.Since(began)) }, enough)
				defer l.giveUp.Stop()
				for {
					_, _ = l.Write([]byte("x"))
					if time.Since(began) >= c.prints {
						break
					}
					time.Sleep(time.Second)
				}
				var gone time.Duration
				select {
				case <-enough:
					gone = time.Since(began)
				case <-time.After(time.Hour):
				}
				if gone != c.gone {
					t.Errorf("it is ended after %s", gone)
				}
			})
		})
	}
}
