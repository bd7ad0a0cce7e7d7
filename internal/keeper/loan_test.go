package keeper

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// lender is a gateway that accepts secrets, unless one of them is bad.
type lender struct {
	Gateway
	has  []wire.Loan
	had  int   // how often it was given secrets
	none error // the error for any list but an empty one
}

func (g *lender) SetLoans(loans []wire.Loan) error {
	if g.none != nil && len(loans) > 0 {
		return g.none
	}
	for _, l := range loans {
		if l.Secret == "bad" {
			return errors.New("it is bad")
		}
	}
	g.had++
	g.has = slices.Clone(loans)
	return nil
}

// holds returns a gateway's secrets as text: "ID=VALUE ID=VALUE". A secret that was taken back
// is only masked, and marked with a "*".
func (g *lender) holds() string { return g.list(false) }

// masks is holds with the further masked values behind each value: "ID=VALUE-FORMER".
func (g *lender) masks() string { return g.list(true) }

func (g *lender) list(masked bool) string {
	var out []string
	for _, l := range g.has {
		value := string(l.Value)
		if l.Taken {
			value = "*" + value
		}
		for _, v := range l.Masked {
			if masked {
				value += "-" + string(v)
			}
		}
		out = append(out, l.ID+"="+value)
	}
	return strings.Join(out, " ")
}

func loan(id, value string) wire.Loan {
	return wire.Loan{
		Lease: spec.Lease{ID: id, Secret: "s", Placeholder: "placeholder-" + id, Env: []string{"TOKEN_" + strings.ToUpper(id)}},
		Value: wire.Value(value),
	}
}

func TestLoans(t *testing.T) {
	g := &lender{}
	k := bare()
	k.gateway, k.log = g, quiet()
	k.launch.Loans = []wire.Loan{loan("a", "one"), loan("b", "two")}
	k.lend()
	badly := func(id string) wire.Loan {
		l := loan(id, "x")
		l.Secret = "bad"
		return l
	}
	bad := badly("c")
	for _, step := range []struct {
		what   string
		change wire.LoanChange
		want   string
		fails  bool
	}{
		{"nothing new", wire.LoanChange{Keep: []string{"a", "b"}}, "a=one b=two", false},
		{"another value", wire.LoanChange{Put: []wire.Loan{loan("a", "three")}, Keep: []string{"a", "b"}}, "b=two a=three-one", false},
		{"a third value", wire.LoanChange{Put: []wire.Loan{loan("a", "six")}, Keep: []string{"a", "b"}}, "b=two a=six-three-one", false},
		{"the first again", wire.LoanChange{Put: []wire.Loan{loan("a", "one")}, Keep: []string{"a", "b"}}, "b=two a=one-six-three", false},
		{"a revocation", wire.LoanChange{Keep: []string{"a"}}, "b=*two a=one-six-three", false},
		{"one more", wire.LoanChange{Put: []wire.Loan{loan("d", "four")}, Keep: []string{"a", "d"}}, "b=*two a=one-six-three d=four", false},
		{"one that is not kept", wire.LoanChange{Put: []wire.Loan{loan("e", "five")}, Keep: []string{"a", "d"}}, "b=*two a=one-six-three d=four", false},
		{"a bad one, and a revocation", wire.LoanChange{Put: []wire.Loan{bad}, Keep: []string{"a", "c"}}, "b=*two a=one-six-three d=*four", true},
		{"a bad one in the place of another", wire.LoanChange{Put: []wire.Loan{badly("a")}, Keep: []string{"a"}}, "b=*two d=*four a=*one-six-three", true},
		{"everything revoked", wire.LoanChange{}, "b=*two d=*four a=*one-six-three", false},
	} {
		if err := k.changeLoans(step.change); (err != nil) != step.fails || g.masks() != step.want {
			t.Errorf("%s: the gateway has %q, want %q (%v)", step.what, g.masks(), step.want, err)
		}
	}
	if len(k.launch.Loans) != 0 {
		t.Error("the launch still has the secrets")
	}
}

// TestRefusedLoans checks that a refusal leaves the lent secrets alone: at no moment is the gateway
// without them. Only a gateway that would go on lending secrets that were taken back ends with none.
func TestRefusedLoans(t *testing.T) {
	g := &lender{}
	k := bare()
	k.gateway, k.log = g, quiet()
	k.launch.Loans = []wire.Loan{loan("a", "one"), loan("b", "two")}
	k.lend()
	bad := loan("c", "x")
	bad.Secret = "bad"
	k.gateway = never{t, g}
	if err := k.changeLoans(wire.LoanChange{Put: []wire.Loan{bad}, Keep: []string{"a", "b", "c"}}); err == nil || g.holds() != "a=one b=two" || g.had != 2 {
		t.Errorf("it has %s, %v", g.holds(), err)
	}
	k.gateway, g.none = g, errors.New("it takes none")
	if err := k.changeLoans(wire.LoanChange{Keep: []string{"a"}}); !errors.Is(err, g.none) || len(g.has) > 0 || len(k.lent(time.Now())) > 0 {
		t.Errorf("it has %s, %v", g.holds(), err)
	}
}

// never is a gateway that must not be left without secrets.
type never struct {
	t *testing.T
	*lender
}

func (g never) SetLoans(loans []wire.Loan) error {
	if len(loans) == 0 {
		g.t.Error("for a moment there are no secrets")
	}
	return g.lender.SetLoans(loans)
}

// TestUnlent checks that a gateway that refuses at the start has no secrets, and that the caller is told.
func TestUnlent(t *testing.T) {
	g := &lender{}
	k := bare()
	k.gateway, k.log = g, quiet()
	bad := loan("a", "one")
	bad.Secret = "bad"
	k.launch.Loans = []wire.Loan{bad, loan("b", "two")}
	k.lend()
	if k.refused == "" || len(g.has) != 0 || len(k.lent(time.Now())) != 0 {
		t.Errorf("%q, %q", k.refused, g.holds())
	}
	// The status lists each one until it is lent or revoked.
	if got := k.notLent(); len(got) != 2 || got[0].Lease != "a" || !strings.Contains(got[0].Reason, "it is bad") {
		t.Errorf("not lent are %+v", got)
	}
	if err := k.changeLoans(wire.LoanChange{Keep: []string{"a", "b"}, Put: []wire.Loan{bad}}); err == nil || len(k.notLent()) != 2 {
		t.Errorf("not lent are %+v, %v", k.notLent(), err)
	}
	if err := k.changeLoans(wire.LoanChange{Keep: []string{"b"}}); err != nil || len(k.notLent()) != 1 {
		t.Errorf("not lent are %+v, %v", k.notLent(), err)
	}
	if err := k.changeLoans(wire.LoanChange{Keep: []string{"b"}, Put: []wire.Loan{loan("b", "two")}}); err != nil || len(k.notLent()) != 0 {
		t.Errorf("not lent are %+v, %v", k.notLent(), err)
	}
}

func TestPlaceholders(t *testing.T) {
	g := &lender{}
	k := bare()
	k.gateway, k.log = g, quiet()
	now := time.Now()
	over, user, empty := loan("over", "1"), loan("user", "2"), loan("empty", "")
	over.Until = now.Add(-time.Second)
	k.spec.Env = []string{"TOKEN_USER=theirs"}
	k.launch.Loans = []wire.Loan{loan("a", "one"), over, user, empty}
	k.lend()
	env := k.environment(k.account, wire.Command{}, k.lent(time.Now()))
	for _, want := range []string{"TOKEN_A=placeholder-a", "TOKEN_USER=theirs"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	if s := strings.Join(env, " "); strings.Contains(s, "TOKEN_OVER") || strings.Contains(s, "TOKEN_EMPTY") || strings.Contains(s, "placeholder-user") {
		t.Errorf("too much in %q", env)
	}
}

// TestSettings checks that programs find leases in the variables that they read, besides the usual ones.
func TestSettings(t *testing.T) {
	k := bare()
	k.gateway, k.log = &lender{}, quiet()
	one, two, over := loan("one", "1"), loan("two", "2"), loan("over", "3")
	one.Settings = []spec.Setting{{Kind: spec.SettingVariable, Name: "INDEXES", Text: "https://{placeholder}@a"}, {Kind: spec.SettingGit, Name: "credential.https://a.helper", Text: "!{placeholder}"}, {Kind: spec.SettingNpm, Text: "x"}}
	two.Settings = []spec.Setting{{Kind: spec.SettingVariable, Name: "INDEXES", Text: "b https://{placeholder}@c"}, {Kind: spec.SettingGit, Name: "credential.https://c.helper", Text: "!{placeholder:base64}"}}
	over.Settings, over.Until = two.Settings, time.Now().Add(-time.Second)
	k.launch.Loans = []wire.Loan{one, over, two}
	k.lend()
	env := k.environment(k.account, wire.Command{}, k.lent(time.Now()))
	for _, want := range []string{
		"INDEXES=https://placeholder-one@a b https://placeholder-two@c",
		"GIT_CONFIG_COUNT=4", "GIT_CONFIG_KEY_0=core.checkStat", "GIT_CONFIG_VALUE_0=minimal",
		"GIT_CONFIG_KEY_2=credential.https://a.helper", "GIT_CONFIG_VALUE_2=!placeholder-one",
		"GIT_CONFIG_KEY_3=credential.https://c.helper", "GIT_CONFIG_VALUE_3=!cGxhY2Vob2xkZXItdHdv",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	if err := k.changeLoans(wire.LoanChange{Keep: []string{"two"}}); err != nil {
		t.Fatal(err)
	}
	env = k.environment(k.account, wire.Command{}, k.lent(time.Now()))
	for _, want := range []string{"INDEXES=b https://placeholder-two@c", "GIT_CONFIG_COUNT=3"} {
		if !slices.Contains(env, want) {
			t.Errorf("after a revocation %s is missing in %q", want, env)
		}
	}
}

func TestTakenLoansAreBounded(t *testing.T) {
	var loans []wire.Loan
	for i := range maxTaken + 10 {
		taken := loan(string(rune('a'+i%26)), "value")
		taken.Taken = true
		loans = append(loans, taken)
	}
	loans = append(loans, loan("kept", "value"))
	if got := latest(loans); len(got) != maxTaken+1 || got[maxTaken].ID != "kept" {
		t.Errorf("%d are left", len(got))
	}
}
