package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/rulefiles"

	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func rule(t testing.TB, a policy.Action, target string) policy.Rule {
	t.Helper()
	r, err := policy.ParseRule(a, target)
	must(t, err)
	return r
}

// TestRules checks that a sandbox has its own rules as soon as it appears, and no file if there are
// none.
func TestRules(t *testing.T) {
	e := newEngine(t)
	b := policy.Block{
		Presets: []string{"npm"}, Allow: []policy.Rule{rule(t, policy.Allow, "*.example.com:443")},
		Deny: []policy.Rule{rule(t, policy.Deny, "evil.example")},
	}
	sb, plain := wish("/srv/app"), wish("/srv/other")
	must(t, e.Create(t.Context(), sb, netrules.First(b)))
	must(t, e.Create(t.Context(), plain, netrules.First(policy.Block{})))
	inputs, err := e.Rules().Layers(sb)
	must(t, err)
	if own := inputs[1].Block; len(own.Presets) != 1 || len(own.Allow) != 1 || len(own.Deny) != 1 {
		t.Errorf("it has %+v", own)
	}
	if _, err := os.Stat(e.Store.Sandbox(plain.ID).Policy()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without rules there is a file: %v", err)
	}
	// An existing sandbox keeps its own.
	again := wish("/srv/app")
	got, created, err := e.Obtain(t.Context(), again, netrules.First(policy.Block{Presets: []string{"open"}}))
	must(t, err)
	if inputs, err = e.Rules().Layers(got); err != nil || created || inputs[1].Block.Presets[0] != "npm" {
		t.Errorf("created %t with %+v, %v", created, inputs, err)
	}
}

func TestHasRules(t *testing.T) {
	e := newEngine(t)
	sb := wish("/srv/app")
	must(t, e.Create(t.Context(), sb, netrules.First(policy.Block{Presets: []string{"npm", "go"}, Allow: []policy.Rule{rule(t, policy.Allow, "a.example")}})))
	ended := rule(t, policy.Allow, "b.example")
	ended.Until = time.Now().Add(time.Hour)
	must(t, e.Rules().Edit(t.Context(), sb, func(f *policyfile.File) error { return f.Add(ended) }))
	for _, tt := range []struct {
		asked policy.Block
		want  bool
	}{
		{policy.Block{}, true},
		{policy.Block{Presets: []string{"go"}}, true},
		{policy.Block{Presets: []string{"pypi"}}, false},
		{policy.Block{Allow: []policy.Rule{rule(t, policy.Allow, "A.Example.")}}, true},
		{policy.Block{Allow: []policy.Rule{rule(t, policy.Allow, "a.example:443")}}, false},
		{policy.Block{Allow: []policy.Rule{rule(t, policy.Allow, "b.example")}}, false}, // that rule ends
		{policy.Block{Deny: []policy.Rule{rule(t, policy.Deny, "a.example")}}, false},
	} {
		if got, err := e.Rules().Has(sb, tt.asked); err != nil || got != tt.want {
			t.Errorf("%+v: %t, %v", tt.asked, got, err)
		}
	}
	must(t, store.WriteFile(e.Store.Sandbox(sb.ID).Policy(), []byte("version: 1\nallow: null\n")))
	if _, err := e.Rules().Has(sb, policy.Block{}); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("rules that cannot be read: %v", err)
	}
}

// TestRulesWhileStarting checks that a change of rules waits for a sandbox that is starting: it may have
// read its rules before the change.
func TestRulesWhileStarting(t *testing.T) {
	e := newEngine(t)
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	d := e.Store.Sandbox(sb.ID)
	lock, err := store.TryLock(d.Lock())
	must(t, err)
	defer lock.Unlock()
	done := make(chan error, 1)
	go func() {
		done <- e.Rules().Edit(here, sb, func(f *policyfile.File) error { return f.Add(rule(t, policy.Deny, "evil.example")) })
	}()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	k := &fakeKeeper{}
	k.serve(t, d)
	must(t, <-done)
	if rules := <-k.rules; !strings.Contains(string(rules), "evil.example") {
		t.Errorf("the keeper was told %s", rules)
	}
}

// TestRulesWhileItEnds checks that a sandbox that ends while it is told needs no rules: its next start
// reads them.
func TestRulesWhileItEnds(t *testing.T) {
	e := newEngine(t)
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	k := &fakeKeeper{}
	k.ends.Store(true)
	k.serve(t, e.Store.Sandbox(sb.ID))
	must(t, e.Rules().Edit(here, sb, func(f *policyfile.File) error { return f.Add(rule(t, policy.Deny, "evil.example")) }))
	if rules := <-k.rules; !strings.Contains(string(rules), "evil.example") {
		t.Errorf("the keeper was told %s", rules)
	}
}

// TestUnreadProjectKeepsNoRules checks that an unreadable project file does not keep the user's rules
// from running sandboxes. A program inside may have written that file. A stopped sandbox reads it when
// it starts, and fails; the user is told that, and it is not an error.
func TestUnreadProjectKeepsNoRules(t *testing.T) {
	e := newEngine(t)
	dir := t.TempDir()
	sb := wish(dir)
	must(t, e.Create(t.Context(), sb))
	var said []string
	e.Progress = func(s string) { said = append(said, s) }
	deny := func(host string) error {
		return e.Rules().Edit(here, sb, func(f *policyfile.File) error { return f.Add(rule(t, policy.Deny, host)) })
	}
	must(t, os.Mkdir(filepath.Join(dir, "bothy.yaml"), 0o700))
	must(t, deny("idle.example"))
	must(t, e.Rules().Edit(here, nil, func(f *policyfile.File) error { return f.Add(rule(t, policy.Deny, "all.example")) }))
	if len(said) != 2 || !strings.Contains(said[0], "does not start") || !strings.Contains(said[1], "bothy.yaml") {
		t.Errorf("of a sandbox that does not run: %q", said)
	}
	said = nil
	k := &fakeKeeper{}
	k.serve(t, e.Store.Sandbox(sb.ID))
	must(t, deny("evil.example"))
	if rules := <-k.rules; !strings.Contains(string(rules), "evil.example") || !k.own.Load() {
		t.Errorf("the keeper was told %s, without the project's: %t", rules, k.own.Load())
	}
	if len(said) != 1 || !strings.Contains(said[0], "bothy.yaml") {
		t.Errorf("it is said: %q", said)
	}
	must(t, os.Remove(filepath.Join(dir, "bothy.yaml")))
	must(t, deny("bad.example"))
	if rules := <-k.rules; !strings.Contains(string(rules), "bad.example") || k.own.Load() || len(said) != 1 {
		t.Errorf("the keeper was told %s, without the project's: %t, and %q said", rules, k.own.Load(), said)
	}
}

// TestUnfitRulesAreNotWritten checks that rules of a sandbox are not written if the user's file keeps
// them from taking effect: they would take effect some day by surprise.
func TestUnfitRulesAreNotWritten(t *testing.T) {
	e := newEngine(t)
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb, netrules.First(policy.Block{Allow: []policy.Rule{rule(t, policy.Allow, "a.example")}})))
	k := &fakeKeeper{}
	k.serve(t, e.Store.Sandbox(sb.ID))
	before, err := os.ReadFile(e.Store.Sandbox(sb.ID).Policy())
	must(t, err)
	must(t, store.WriteFile(e.Store.Policy(), []byte("version: 1\nallow: [bad..example]\n")))
	err = e.Rules().Edit(here, sb, func(f *policyfile.File) error { return f.SetDefault(policy.Allow) })
	if !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), "nothing is changed") || !strings.Contains(err.Error(), e.Store.Policy()+": line 2") {
		t.Errorf("the error is %v", err)
	}
	if after, err := os.ReadFile(e.Store.Sandbox(sb.ID).Policy()); err != nil || string(after) != string(before) || len(k.rules) != 0 {
		t.Errorf("the rules are\n%s%v, and the keeper was told %d times", after, err, len(k.rules))
	}
}

// TestRulesForAllThatCanBeTold checks that the user's rules reach all sandboxes that can be told. The
// error names running ones that cannot. It is not a usage error, because the rules are written. A
// stopped sandbox needs no rules.
func TestRulesForAllThatCanBeTold(t *testing.T) {
	e := newEngine(t)
	var said []string
	e.Progress = func(s string) { said = append(said, s) }
	runs, unread, idle := wish(t.TempDir()), wish(t.TempDir()), wish(t.TempDir())
	var keepers [2]fakeKeeper
	for i, sb := range []*spec.Sandbox{unread, runs, idle} {
		must(t, e.Create(t.Context(), sb))
		if sb != runs {
			must(t, store.WriteFile(e.Store.Sandbox(sb.ID).Policy(), []byte("version: 1\nallow: [bad..example]\n")))
		}
		if sb != idle {
			keepers[i].serve(t, e.Store.Sandbox(sb.ID))
		}
	}
	err := e.Rules().Edit(here, nil, func(f *policyfile.File) error { return f.Add(rule(t, policy.Deny, "evil.example")) })
	if spec.ExitCode(err) != spec.ExitError || !strings.Contains(err.Error(), "are written") || !strings.Contains(err.Error(), "sandbox "+unread.Name) ||
		strings.Contains(err.Error(), "sandbox "+runs.Name) || strings.Contains(err.Error(), "sandbox "+idle.Name) {
		t.Errorf("the error is %v", err)
	}
	if rules := <-keepers[1].rules; !strings.Contains(string(rules), "evil.example") {
		t.Errorf("the keeper was told %s", rules)
	}
	if len(said) != 1 || !strings.Contains(said[0], idle.Name) {
		t.Errorf("it is said: %q", said)
	}
	if user, err := rulefiles.Read(e.Store.Policy()); err != nil || len(user.Deny) != 1 {
		t.Errorf("the user's rules are %+v, %v", user, err)
	}
}

// TestRulesForBroken checks that a running sandbox with an unreadable description gets the rules, and
// keeps its project's.
func TestRulesForBroken(t *testing.T) {
	e := newEngine(t)
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	d := e.Store.Sandbox(sb.ID)
	must(t, os.WriteFile(d.Spec(), []byte("{"), 0o600))
	deny := func(host string) error {
		return e.Rules().Edit(here, nil, func(f *policyfile.File) error { return f.Add(rule(t, policy.Deny, host)) })
	}
	must(t, deny("idle.example"))
	k := &fakeKeeper{}
	k.serve(t, d)
	must(t, deny("evil.example"))
	if len(k.rules) != 1 {
		t.Fatal("the keeper was told nothing")
	}
	if rules := <-k.rules; !strings.Contains(string(rules), "evil.example") || !k.own.Load() {
		t.Errorf("the keeper was told %s, without the project's: %t", rules, k.own.Load())
	}
}

// TestEndedRulesGo checks that each change of rules removes those that have ended.
func TestEndedRulesGo(t *testing.T) {
	e := newEngine(t)
	sb := wish(t.TempDir())
	ended, goes := rule(t, policy.Allow, "a.example"), rule(t, policy.Allow, "b.example")
	ended.Until, goes.Until = time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	must(t, e.Create(t.Context(), sb, netrules.First(policy.Block{Allow: []policy.Rule{ended, goes}})))
	must(t, e.Rules().Edit(here, sb, func(f *policyfile.File) error { return f.Add(rule(t, policy.Deny, "c.example")) }))
	text, err := os.ReadFile(e.Store.Sandbox(sb.ID).Policy())
	must(t, err)
	if s := string(text); strings.Contains(s, "a.example") || !strings.Contains(s, "b.example") || !strings.Contains(s, "c.example") {
		t.Errorf("the rules are\n%s", s)
	}
}
