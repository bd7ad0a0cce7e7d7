package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/spec"
)

// parsedProxy returns the rules of a command line, or its error.
func parsedProxy(words ...string) ([]policy.Rule, policy.Action, error) {
	f, a := &proxyFlags{}, &app{&cmdline.App{Console: &console.Console{}}}
	var rules []policy.Rule
	var def policy.Action
	root := &cobra.Command{Use: "bothy", SilenceErrors: true, SilenceUsage: true}
	root.SetFlagErrorFunc(a.BadFlag)
	c := a.proxyCommandWith(f)
	c.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		rules, def, err = f.parse(cmd)
		return err
	}
	root.AddCommand(c)
	err := a.Execute(context.Background(), root, append([]string{"proxy", "box"}, words...))
	return rules, def, err
}

// TestProxyFlags checks docker's flags as our rules.
func TestProxyFlags(t *testing.T) {
	rules, def, err := parsedProxy("--policy", "deny", "--allow-host", "*.npmjs.org", "--allow-host", "api.example.com:443", "--allow-host", "192.0.2.1",
		"--block-host", "evil.example", "--bypass-host", "pinned.example", "--allow-cidr", "10.0.0.0/8", "--block-cidr", "198.51.100.0/24", "--bypass-cidr", "203.0.113.0/24")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rules {
		got = append(got, r.Action.String()+" "+r.String())
	}
	want := "allow **.npmjs.org; allow api.example.com:443; allow 192.0.2.1; deny evil.example; allow pinned.example passthrough; " +
		"allow 10.0.0.0/8; deny 198.51.100.0/24; allow 203.0.113.0/24 passthrough"
	if s := strings.Join(got, "; "); s != want || def != policy.Deny {
		t.Errorf("%s, %s", def, s)
	}
	for text, want := range map[string]string{"*": "**", "*:443": "**:443", "*.a.example:80": "**.a.example:80", "**.a.example": "**.a.example", "a.example": "a.example"} {
		if got := fromDocker(text); got != want {
			t.Errorf("%s is %s", text, got)
		}
	}
	if rules, _, err := parsedProxy("--allow-host", "a.example", "--allow-host", "A.example."); err != nil || len(rules) != 1 {
		t.Errorf("the same twice: %v, %v", rules, err)
	}
}

// TestAttackA5EmptyFlags checks that an empty value of any flag changes nothing.
func TestAttackA5EmptyFlags(t *testing.T) {
	for _, words := range [][]string{
		{},
		{"--policy", ""},
		{"--policy=ALLOW"},
		{"--policy", "null"},
		{"--policy=allow "},
		{"--allow-host", ""},
		{"--allow-host", " "},
		{"--block-host="},
		{"--bypass-host", ""},
		{"--allow-cidr", ""},
		{"--block-cidr="},
		{"--bypass-cidr", ""},
		{"--allow-host", "a.example,b.example"},
		{"--allow-host", "*.*"},
		{"--allow-host", "null:0"},
		{"--allow-cidr", "a.example"},
		{"--block-cidr", "10.0.0.1/8"},
		{"--allow-host", "10.0.0.0/8"},
		{"--policy", "allow", "--block-host", ""},
	} {
		if _, _, err := parsedProxy(words...); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", words, err)
		}
	}
	for _, f := range []cmdline.NetworkFlags{
		{Presets: []string{""}},
		{Presets: []string{"nope"}},
		{Allow: []string{""}},
		{Deny: []string{""}},
		{DockerDeny: []string{" "}},
		{Presets: []string{"npm", "npm"}},
		{Allow: []string{"a.example,b.example"}},
		{Allow: []string{"a.example", "a.example"}},
	} {
		if b, err := f.Block(); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%+v is %+v, %v", f, b, err)
		}
	}
}

// TestAttackA6ConflictingFlags checks that no flag overrides another silently.
func TestAttackA6ConflictingFlags(t *testing.T) {
	for _, words := range [][]string{
		{"--allow-host", "a.example", "--block-host", "a.example"},
		{"--allow-host", "a.example", "--bypass-host", "A.example"},
		{"--block-cidr", "10.0.0.0/8", "--allow-cidr", "10.0.0.0/8"},
		{"--block-host", "*", "--allow-host", "a.example"},
		{"--bypass-host", "a.example", "--block-host", "a.example"},
	} {
		if _, _, err := parsedProxy(words...); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", words, err)
		}
	}
	for _, f := range []cmdline.NetworkFlags{
		{Presets: []string{"none"}, Allow: []string{"a.example"}},
		{Presets: []string{"none", "npm"}},
		{Presets: []string{"none"}, DockerAllow: []string{"10.0.0.0/8"}},
		{Allow: []string{"a.example"}, Deny: []string{"a.example"}},
	} {
		if b, err := f.Block(); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%+v is %+v, %v", f, b, err)
		}
	}
}

// TestAttackA21NarrowAllowInFlags checks that contradictory rules are refused where docker lets the
// narrower rule win. A deny rule that only cuts a part out of an allowed target is accepted.
func TestAttackA21NarrowAllowInFlags(t *testing.T) {
	for _, words := range [][]string{
		{"--block-host", "*.example.com", "--allow-host", "api.example.com:443"},
		{"--allow-host", "api.example.com", "--block-host", "*.example.com"},
		{"--block-cidr", "10.0.0.0/8", "--allow-cidr", "10.1.0.0/16"},
		{"--block-cidr", "10.0.0.0/8", "--bypass-cidr", "10.1.0.0/16"},
	} {
		if _, _, err := parsedProxy(words...); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", words, err)
		}
	}
	if _, _, err := parsedProxy("--allow-host", "*.example.com", "--block-host", "api.example.com"); err != nil {
		t.Error(err)
	}
}

// TestProxyReplaces checks that apply replaces existing rules and keeps conditions.
func TestProxyReplaces(t *testing.T) {
	f, err := policyfile.Decode([]byte("version: 1\nallow:\n  - a.example\n  - {host: b.example, methods: [GET]}\ndeny: [10.0.0.0/8]\n"))
	if err != nil {
		t.Fatal(err)
	}
	rules, def, err := parsedProxy("--policy", "allow", "--block-host", "a.example", "--allow-cidr", "10.0.0.0/8", "--bypass-host", "c.example")
	if err != nil {
		t.Fatal(err)
	}
	if err := applyFlags(f, rules, def); err != nil {
		t.Fatal(err)
	}
	if len(f.Deny) != 1 || f.Deny[0].Text != "a.example" || len(f.Allow) != 3 || f.Default != policy.Allow {
		t.Errorf("%s", f.Encode())
	}
}

func record(event, verdict, name string, at time.Time) *spec.NetworkRecord {
	return &spec.NetworkRecord{Event: event, Verdict: verdict, Name: name, Port: 443, Time: at, Up: 10, Down: 20}
}

// TestTally checks that similar records share a row, that refusals come first, and that all is
// counted.
func TestTally(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	at := func(n int) time.Time { return now.Add(time.Duration(n) * time.Second) }
	tl := newTally(recordFilter{})
	tl.add("box", record(spec.NetworkFlow, spec.VerdictAllow, "a.example", at(9)))
	tl.add("box", record(spec.NetworkFlow, spec.VerdictAllow, "a.example", at(10)))
	tl.add("box", record(spec.NetworkRequest, spec.VerdictAllow, "a.example", at(11)))
	tl.add("two", record(spec.NetworkFlow, spec.VerdictAllow, "a.example", at(1)))
	many := record(spec.NetworkFlow, spec.VerdictDeny, "b.example", at(2))
	many.Count, many.Up, many.Down = 41, 0, 0
	tl.add("box", many)
	tl.add("box", record(spec.NetworkFlow, spec.VerdictDeny, "b.example", at(3)))
	tl.add("box", &spec.NetworkRecord{Event: spec.NetworkSuppressed, Verdict: spec.VerdictDeny, Suppressed: 1000, Time: at(4)})
	tl.add("box", &spec.NetworkRecord{Event: spec.NetworkPolicy, Generation: 2, Time: at(5)})
	rows, more := tl.sorted(0)
	if len(rows) != 4 || more != 0 {
		t.Fatalf("%d rows, %d more", len(rows), more)
	}
	if r := rows[0]; r.Host != "(many)" || r.Count != 1000 {
		t.Errorf("%+v", r)
	}
	if r := rows[1]; r.Host != "b.example:443" || r.Count != 42 || !r.Since.Equal(at(2)) || !r.Last.Equal(at(3)) {
		t.Errorf("%+v", r)
	}
	if r := rows[2]; r.Sandbox != "box" || r.Count != 2 || r.Requests != 1 || r.Up != 20 || r.Down != 40 || !r.Last.Equal(at(11)) {
		t.Errorf("%+v", r)
	}
	if rows, more = tl.sorted(1); len(rows) != 1 || more != 3 || rows[0].Host != "a.example:443" {
		t.Errorf("the latest is %+v, %d more", rows[0], more)
	}
}

// TestTallyKeepsCommands checks that a failure with a suggested command is not hidden by one
// without.
func TestTallyKeepsCommands(t *testing.T) {
	tl := newTally(recordFilter{})
	for i, suggest := range []string{"", "bothy policy allow", ""} {
		tl.add("box", &spec.NetworkRecord{
			Event: spec.NetworkFlow, Verdict: spec.VerdictError, Name: "a.example", Port: 443,
			Reason: fmt.Sprint("reason ", i), Suggest: suggest, Time: time.Unix(int64(i), 0),
		})
	}
	rows, _ := tl.sorted(0)
	if len(rows) != 2 || rows[0].Reason != "reason 2" || rows[0].Count != 2 || rows[1].Reason != "reason 1" || rows[1].Suggest == "" {
		t.Errorf("%d rows", len(rows))
	}
}

// TestTallyOfOpenFlows checks that an ended flow is counted by its end, an open one by its
// beginning, and none twice.
func TestTallyOfOpenFlows(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	flow := func(number, state, verdict, name string, count int64) *spec.NetworkRecord {
		at = at.Add(time.Second)
		r := record(spec.NetworkFlow, verdict, name, at)
		if r.Flow, r.State, r.Count = number, state, count; state == spec.FlowOpened {
			r.Up, r.Down = 0, 0
		}
		return r
	}
	records := []*spec.NetworkRecord{
		flow("a-1", spec.FlowOpened, spec.VerdictAllow, "a.example", 0),
		flow("a-0", spec.FlowClosed, spec.VerdictAllow, "a.example", 0), // the log rotation removed its beginning
		flow("a-2", spec.FlowOpened, spec.VerdictAllow, "a.example", 0),
		flow("a-2", spec.FlowClosed, spec.VerdictAllow, "a.example", 0),
		flow("a-3", spec.FlowOpened, spec.VerdictAllow, "b.example", 0),
		flow("a-4", spec.FlowOpened, spec.VerdictAllow, "b.example", 0),
		flow("a-5", spec.FlowOpened, spec.VerdictAllow, "b.example", 0),
		flow("a-4", spec.FlowClosed, spec.VerdictDeny, "b.example", 0),
		flow("a-3", spec.FlowClosed, spec.VerdictDeny, "b.example", 0),
		flow("", "", spec.VerdictDeny, "b.example", 7), // connections that never opened, in one record
		// Among very many flows none has a number.
		flow("", spec.FlowOpened, spec.VerdictAllow, "c.example", 0),
		flow("", spec.FlowClosed, spec.VerdictAllow, "c.example", 300),
		flow("", spec.FlowOpened, spec.VerdictAllow, "c.example", 304),
		flow("", spec.FlowClosed, spec.VerdictError, "c.example", 0),
	}
	for verdict, want := range map[string]string{
		"":                "b.example:443 deny 9 30; c.example:443 error 1 10; c.example:443 allow 304 10; b.example:443 allow 1 0; a.example:443 allow 3 20; ",
		spec.VerdictAllow: "c.example:443 allow 304 10; b.example:443 allow 1 0; a.example:443 allow 3 20; ",
		spec.VerdictDeny:  "b.example:443 deny 9 30; ",
	} {
		tl := newTally(recordFilter{verdict: verdict})
		for _, r := range records {
			tl.readRecord("box", r)
		}
		tl.addOpen()
		var got strings.Builder
		rows, _ := tl.sorted(0)
		for _, r := range rows {
			fmt.Fprintf(&got, "%s %s %d %d; ", r.Host, r.Verdict, r.Count, r.Up)
		}
		if verdict == "" && !rows[4].Last.Equal(at.Add(-10*time.Second)) {
			t.Errorf("a.example was last seen %s", rows[2].Last)
		}
		if got.String() != want {
			t.Errorf("with verdict %q: %s", verdict, got.String())
		}
	}
}

// TestTallySince checks that open flows count whenever they were opened.
func TestTallySince(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	tl := newTally(recordFilter{since: at})
	for _, r := range []*spec.NetworkRecord{
		{Time: at.Add(-2 * time.Hour), Flow: "a-1", State: spec.FlowOpened, Name: "open.example"},
		{Time: at.Add(-2 * time.Hour), Flow: "a-2", State: spec.FlowOpened, Name: "ended.example"},
		{Time: at.Add(-time.Hour), Flow: "a-2", State: spec.FlowClosed, Name: "ended.example"},
	} {
		r.Event, r.Verdict = spec.NetworkFlow, spec.VerdictAllow
		tl.readRecord("box", r)
	}
	tl.addOpen()
	if rows, _ := tl.sorted(0); len(rows) != 1 || rows[0].Host != "open.example" || rows[0].Count != 1 {
		t.Errorf("there are %+v", rows)
	}
}

func TestRecordFilter(t *testing.T) {
	now := time.Now()
	parse := func(s string) target.Target {
		tg, err := target.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return tg
	}
	r := record(spec.NetworkFlow, spec.VerdictDeny, "api.example.com", now)
	r.Addr = netip.MustParseAddr("192.0.2.7")
	for _, tt := range []struct {
		f    recordFilter
		want bool
	}{
		{recordFilter{}, true},
		{recordFilter{verdict: spec.VerdictDeny, since: now}, true},
		{recordFilter{verdict: spec.VerdictAllow}, false},
		{recordFilter{since: now.Add(time.Second)}, false},
		{recordFilter{targets: []target.Target{parse("evil.example"), parse("**.example.com:443")}}, true},
		{recordFilter{targets: []target.Target{parse("192.0.2.0/24")}}, true},
		{recordFilter{targets: []target.Target{parse("*.example.com:80")}}, false},
	} {
		if got := tt.f.matches(r); got != tt.want {
			t.Errorf("%+v: %t", tt.f, got)
		}
	}
	for text, want := range map[string]time.Time{"1h": now.Add(-time.Hour), "2026-12-31T18:00:00Z": time.Date(2026, 12, 31, 18, 0, 0, 0, time.UTC), "0s": now} {
		if got, err := PointInTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1h", "yesterday", "5", "2026-12-31"} {
		if at, err := PointInTime(text, now); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q is %v, %v", text, at, err)
		}
	}
}
