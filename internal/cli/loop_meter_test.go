package cli

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// What the gateway has counted outweighs what an agent says of itself.
func TestMeter(t *testing.T) {
	began := time.Now()
	until := began.Add(time.Hour)
	bill := func(tokens int64, limited *spec.Limited) spec.Bill {
		return spec.Bill{Models: []spec.BillItem{{Model: "m", Answers: tokens / 100, Tokens: spec.Tokens{Input: tokens}, USD: float64(tokens) / 100}}, Limited: limited}
	}
	old := &spec.Limited{At: began.Add(-time.Minute), Until: until}
	now := &spec.Limited{At: began.Add(time.Second), Until: until}
	silent := &spec.Limited{At: began.Add(time.Second)}
	over := &spec.Limited{At: began.Add(time.Second), Until: until, Over: true}
	full := func(b spec.Bill, l *spec.Limited) spec.Bill {
		b.Overloaded = l
		return b
	}
	for name, c := range map[string]struct {
		says    loop.Work
		after   spec.Bill
		verdict string
		tokens  int64
		until   time.Time
		full    bool
	}{
		"nobody was asked":           {loop.Work{Verdict: spec.VerdictLimit, Tokens: 7, Until: until}, bill(100, old), spec.VerdictLimit, 7, until, false},
		"it says less":               {loop.Work{Verdict: spec.VerdictOK, Tokens: 7}, bill(300, nil), spec.VerdictOK, 200, time.Time{}, false},
		"it says more":               {loop.Work{Verdict: spec.VerdictOK, Tokens: 700}, bill(300, nil), spec.VerdictOK, 700, time.Time{}, false},
		"a limit nobody saw":         {loop.Work{Verdict: spec.VerdictLimit, Until: until}, bill(200, old), spec.VerdictFailed, 100, time.Time{}, false},
		"a limit that it hides":      {loop.Work{Verdict: spec.VerdictFailed}, bill(200, now), spec.VerdictLimit, 100, until, false},
		"a limit at once":            {loop.Work{Verdict: spec.VerdictFailed}, bill(100, now), spec.VerdictLimit, 0, until, false},
		"a limit it got over":        {loop.Work{Verdict: spec.VerdictOK}, bill(200, now), spec.VerdictOK, 100, time.Time{}, false},
		"until when only it says":    {loop.Work{Verdict: spec.VerdictLimit, Until: until}, bill(200, silent), spec.VerdictLimit, 100, until, false},
		"until when the server says": {loop.Work{Verdict: spec.VerdictLimit, Until: began.Add(24 * time.Hour)}, bill(200, now), spec.VerdictLimit, 100, until, false},

		"a limit, got over, then a crash":  {loop.Work{Verdict: spec.VerdictFailed}, bill(200, over), spec.VerdictFailed, 100, time.Time{}, false},
		"a limit of one of two models":     {loop.Work{Verdict: spec.VerdictLimit}, bill(200, over), spec.VerdictLimit, 100, until, false},
		"overloaded":                       {loop.Work{Verdict: spec.VerdictFailed}, full(bill(200, nil), silent), spec.VerdictLimit, 100, time.Time{}, true},
		"overloaded at once, for so long":  {loop.Work{Verdict: spec.VerdictFailed}, full(bill(100, old), now), spec.VerdictLimit, 0, until, true},
		"overloaded, but it got over that": {loop.Work{Verdict: spec.VerdictOK}, full(bill(200, nil), now), spec.VerdictOK, 100, time.Time{}, false},
		"overloaded, then a crash":         {loop.Work{Verdict: spec.VerdictFailed}, full(bill(200, nil), over), spec.VerdictFailed, 100, time.Time{}, false},
		"overloaded before":                {loop.Work{Verdict: spec.VerdictFailed}, full(bill(200, nil), old), spec.VerdictFailed, 100, time.Time{}, false},
		"overloaded, and says of a limit":  {loop.Work{Verdict: spec.VerdictLimit, Until: until}, full(bill(200, nil), silent), spec.VerdictLimit, 100, time.Time{}, true},
		"a limit, then overloaded":         {loop.Work{Verdict: spec.VerdictFailed}, full(bill(200, now), silent), spec.VerdictLimit, 100, until, false},
	} {
		w := c.says
		meter(&w, bill(100, old), c.after, began)
		if w.Verdict != c.verdict || w.Tokens != c.tokens || !w.Until.Equal(c.until) || w.Overloaded != c.full {
			t.Errorf("%s: %+v", name, w)
		}
	}
}

// What an agent says of itself is kept beside what was seen; what could not be read is no
// number.
func TestMeterKeepsBoth(t *testing.T) {
	seen := spec.Bill{Models: []spec.BillItem{{Answers: 1, Tokens: spec.Tokens{Input: 100}}}}
	for says, counts := range map[int64]int64{7: 100, 100: 100, 700: 700} {
		said := spec.Claimed{Tokens: says}
		w := loop.Work{Verdict: spec.VerdictOK, Tokens: says, Said: &said}
		meter(&w, spec.Bill{}, seen, time.Now())
		if w.Seen == nil || w.Seen.Counted() != 100 || w.Tokens != counts || *w.Said != (spec.Claimed{Tokens: says}) {
			t.Errorf("it says %d: %+v, said %+v", says, w, w.Said)
		}
	}
	unread := spec.Bill{Models: []spec.BillItem{{Unseen: 1}}}
	w := loop.Work{Verdict: spec.VerdictLimit, Tokens: 7}
	if meter(&w, spec.Bill{}, unread, time.Now()); w.Seen == nil || w.Seen.Unseen != 1 || w.Tokens != 7 || w.Verdict != spec.VerdictLimit {
		t.Errorf("over a WebSocket: %+v", w)
	}
	if w := usedOf(&transcript.Digest{}); w.Said != nil {
		t.Errorf("one that says nothing: %+v", w.Said)
	}
	if w := usedOf(&transcript.Digest{Usage: spec.TranscriptUsage{Cached: 5}}); w.Said == nil || w.Said.Tokens != 0 {
		t.Errorf("one of which a cache had all: %+v", w.Said)
	}
}

// A budget is refused where it would hold nobody, and goes by claims where there are some.
func TestBoundable(t *testing.T) {
	of := func(name string) *spec.Agent {
		t.Helper()
		of, err := agentCalled(agent.NewCatalog(t.TempDir()), name)
		must(t, err)
		return of
	}
	says := &spec.Agent{Title: "Mine", Headless: &spec.AgentHeadless{Events: &spec.AgentReading{Rules: []spec.AgentRule{
		{Each: "list", Rules: []spec.AgentRule{{Kind: spec.TalkUsage, Usage: &spec.AgentUse{Output: spec.AgentPaths{"out"}}}}},
	}}}}
	tokens, usd := spec.Budget{Tokens: 1}, spec.Budget{USD: 1}
	for name, c := range map[string]struct {
		of     *spec.Agent
		budget spec.Budget
		lent   lendings
		run    bool
		ok     bool
	}{
		"claude":                  {of("claude"), usd, lendings{}, true, true},
		"codex":                   {of("codex"), usd, lendings{}, false, true},
		"gemini":                  {of("gemini"), tokens, lendings{}, false, true},
		"opencode":                {of("opencode"), tokens, lendings{}, false, true},
		"copilot":                 {of("copilot"), tokens, lendings{}, true, true},
		"cursor":                  {of("cursor"), tokens, lendings{}, false, false},
		"cursor in a run":         {of("cursor"), tokens, lendings{}, true, false},
		"cursor without a budget": {of("cursor"), spec.Budget{}, lendings{}, false, true},
		"the shell":               {nil, tokens, lendings{}, false, true},
		"one that says":           {says, tokens, lendings{}, true, true},
		"one that says no money":  {says, usd, lendings{}, true, false},
		"whose word nobody hears": {says, tokens, lendings{}, false, false},
		"cursor with a secret":    {of("cursor"), tokens, lendings{secrets: []string{"openai"}}, true, true},
		"with a secret":           {says, usd, lendings{secrets: []string{"openai"}}, false, true},
		"one that is played":      {says, usd, lendings{played: true}, true, true},
	} {
		a := &app{stderr: os.Stderr}
		if err := a.boundable(c.of, c.budget, c.lent, c.run); (err == nil) != c.ok || err != nil && !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is lent has the gateway see what is asked if it is for models that the gateway knows, and
// not if it is for anything else. A secret that there is not is an error.
func TestLendings(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	e := &engine.Engine{Store: st, Agents: agent.NewCatalog(t.TempDir())}
	for name, service := range map[string]string{"models": "openai", "inference": "huggingface", "code": "github", "own": ""} {
		must(t, e.SetSecret(t.Context(), engine.NewSecret{Name: name, Service: service, Source: vault.Source{Kind: vault.SourceEnvironment, Variable: "NOT_SET"}}))
	}
	for flags, want := range map[string][]string{
		"": nil, "models": {"models"}, "models:8h": {"models"}, "code": nil, "own": nil, "code models inference": {"models", "inference"},
	} {
		f := &createFlags{secrets: strings.Fields(flags)}
		w, err := f.lendings(e)
		if err != nil || w.played || !slices.Equal(w.secrets, want) {
			t.Errorf("--secret %s: %+v, %v", flags, w, err)
		}
	}
	if _, err := (&createFlags{secrets: []string{"none"}}).lendings(e); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("a secret that there is not: %v", err)
	}
	sb := &spec.Sandbox{ID: store.NewID(), Name: "box", Agent: "cursor"}
	_, err = st.Create(sb)
	must(t, err)
	a, budget := &app{stderr: os.Stderr}, spec.Budget{Tokens: 1}
	for name, c := range map[string]struct {
		lease spec.Lease
		ok    bool
	}{
		"nothing":       {spec.Lease{}, false},
		"something":     {spec.Lease{Hosts: []string{"api.github.com:443", "*.example.com"}}, false},
		"models":        {spec.Lease{Hosts: []string{"API.openai.com:443"}}, true},
		"all models":    {spec.Lease{Hosts: []string{"**.openai.com"}}, true},
		"one that ends": {spec.Lease{Hosts: []string{"api.openai.com"}, Until: time.Now().Add(-time.Hour)}, false},
	} {
		must(t, vault.WriteLeases(st.Sandbox(sb.ID).Leases(), []spec.Lease{c.lease}))
		if err := a.boundableIn(e, sb, budget); (err == nil) != c.ok || err != nil && !errors.Is(err, spec.ErrUsage) {
			t.Errorf("lent is %s: %v", name, err)
		}
		if err := a.boundableIn(e, sb, spec.Budget{}); err != nil {
			t.Errorf("lent is %s, and there is to be no budget: %v", name, err)
		}
	}
	sb.Agent = "shell"
	if err := a.boundableIn(e, sb, budget); err != nil {
		t.Errorf("a shell: %v", err)
	}
}

// What --secret names is not lent to who reviews.
func TestReviewersBoundable(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	e := &engine.Engine{Store: st, Agents: agent.NewCatalog(t.TempDir())}
	must(t, e.SetSecret(t.Context(), engine.NewSecret{Name: "models", Service: "openai", Source: vault.Source{Kind: vault.SourceEnvironment, Variable: "NOT_SET"}}))
	of, err := agentCalled(e.Agents, "cursor")
	must(t, err)
	f := &loopFlags{createFlags: createFlags{secrets: []string{"models"}}}
	f.plan.Limits.Tokens = 9
	a := &app{stderr: os.Stderr}
	must(t, a.loopBoundable(e, f, []*spec.Agent{of}, nil))
	if err := a.loopBoundable(e, f, []*spec.Agent{of}, []*spec.Agent{of}); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("one that reviews: %v", err)
	}
}
