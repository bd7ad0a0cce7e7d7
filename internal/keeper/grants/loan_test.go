package grants

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

// masks is holds with the further masked values after each value: "ID=VALUE-FORMER".
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
	k := granting()
	k.gateway = g
	k.Launch.Loans = []wire.Loan{loan("a", "one"), loan("b", "two")}
	k.LendFirst()
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
		if err := k.ChangeLoans(step.change); (err != nil) != step.fails || g.masks() != step.want {
			t.Errorf("%s: the gateway has %q, want %q (%v)", step.what, g.masks(), step.want, err)
		}
	}
	if len(k.Launch.Loans) != 0 {
		t.Error("the launch still has the secrets")
	}
}

// TestRefusedLoans checks that a refusal leaves the lent secrets alone: at no moment is the gateway
// without them. Only a gateway that would go on lending secrets that were taken back ends with none.
func TestRefusedLoans(t *testing.T) {
	g := &lender{}
	k := granting()
	k.gateway = g
	k.Launch.Loans = []wire.Loan{loan("a", "one"), loan("b", "two")}
	k.LendFirst()
	bad := loan("c", "x")
	bad.Secret = "bad"
	k.gateway = never{t, g}
	if err := k.ChangeLoans(wire.LoanChange{Put: []wire.Loan{bad}, Keep: []string{"a", "b", "c"}}); err == nil || g.holds() != "a=one b=two" || g.had != 2 {
		t.Errorf("it has %s, %v", g.holds(), err)
	}
	k.gateway, g.none = g, errors.New("it takes none")
	if err := k.ChangeLoans(wire.LoanChange{Keep: []string{"a"}}); !errors.Is(err, g.none) || len(g.has) > 0 || len(k.Lent(time.Now())) > 0 {
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
	k := granting()
	k.gateway = g
	bad := loan("a", "one")
	bad.Secret = "bad"
	k.Launch.Loans = []wire.Loan{bad, loan("b", "two")}
	refused := k.LendFirst()
	if refused == "" || len(g.has) != 0 || len(k.Lent(time.Now())) != 0 {
		t.Errorf("%q, %q", refused, g.holds())
	}
	// The status lists each one until it is lent or revoked.
	if got := k.NotLent(); len(got) != 2 || got[0].Lease != "a" || !strings.Contains(got[0].Reason, "it is bad") {
		t.Errorf("not lent are %+v", got)
	}
	if err := k.ChangeLoans(wire.LoanChange{Keep: []string{"a", "b"}, Put: []wire.Loan{bad}}); err == nil || len(k.NotLent()) != 2 {
		t.Errorf("not lent are %+v, %v", k.NotLent(), err)
	}
	if err := k.ChangeLoans(wire.LoanChange{Keep: []string{"b"}}); err != nil || len(k.NotLent()) != 1 {
		t.Errorf("not lent are %+v, %v", k.NotLent(), err)
	}
	if err := k.ChangeLoans(wire.LoanChange{Keep: []string{"b"}, Put: []wire.Loan{loan("b", "two")}}); err != nil || len(k.NotLent()) != 0 {
		t.Errorf("not lent are %+v, %v", k.NotLent(), err)
	}
}

// TestLent checks that only leases in force are shown to programs.
func TestLent(t *testing.T) {
	k := granting()
	k.gateway = &lender{}
	now := time.Now()
	over, empty := loan("over", "1"), loan("empty", "")
	over.Until = now.Add(-time.Second)
	k.Launch.Loans = []wire.Loan{loan("a", "one"), over, loan("b", "two"), empty}
	k.LendFirst()
	ids := func() (list []string) {
		for _, l := range k.Lent(now) {
			list = append(list, l.ID)
		}
		return list
	}
	if got := ids(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("lent are %q", got)
	}
	must(t, k.ChangeLoans(wire.LoanChange{Keep: []string{"b"}}))
	if got := ids(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("after a revocation lent are %q", got)
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
	if got := dropOldTaken(loans); len(got) != maxTaken+1 || got[maxTaken].ID != "kept" {
		t.Errorf("%d are left", len(got))
	}
}
