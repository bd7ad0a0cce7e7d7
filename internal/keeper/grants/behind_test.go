package grants

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// TestCatchUpWithLeases checks that a keeper drops a revoked lease at its next check even if it
// was not told: the file lacks the lease or is gone. An unreadable file changes nothing.
func TestCatchUpWithLeases(t *testing.T) {
	g := &lender{}
	k := granting()
	k.gateway = g
	k.Dir = store.Sandbox{Dir: t.TempDir()}
	k.OnUnlent = func([]spec.Unlent) {}
	k.Launch.Rules = filepath.Join(t.TempDir(), "policy.yaml")
	k.rulesInForce, _ = policy.Compile(1, policy.Input{Layer: policy.LayerUser}, policy.Input{Layer: policy.LayerSandbox})
	k.rules = []policy.Input{{Layer: policy.LayerUser}, {Layer: policy.LayerSandbox}}
	look := func() {
		k.behind.looked = time.Time{}
		k.CatchUp()
	}
	write := func(list ...spec.Lease) {
		t.Helper()
		if err := vault.WriteLeases(k.Dir.Leases(), list); err != nil {
			t.Fatal(err)
		}
	}
	a, b := loan("a", "1"), loan("b", "2")
	write(a.Lease, b.Lease)
	if err := k.setLoans([]wire.Loan{a, b}); err != nil {
		t.Fatal(err)
	}
	look()
	if got := g.holds(); got != "a=1 b=2" {
		t.Errorf("nothing was revoked: %s", got)
	}
	write(b.Lease)
	look()
	if got := g.holds(); got != "a=*1 b=2" {
		t.Errorf("one was revoked: %s", got)
	}
	if err := store.WriteFile(k.Dir.Leases(), []byte("{")); err != nil {
		t.Fatal(err)
	}
	look()
	if got := g.holds(); got != "a=*1 b=2" {
		t.Errorf("they cannot be read: %s", got)
	}
	write()
	look()
	if got := g.holds(); got != "a=*1 b=*2" {
		t.Errorf("all were revoked: %s", got)
	}
}
