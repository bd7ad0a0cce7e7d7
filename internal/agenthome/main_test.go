package agenthome

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/credential/credentialtest"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/store"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// signedIn returns homes on a host on which a user of claude has logged in.
func signedIn(t *testing.T) (Homes, *[]string) {
	t.Helper()
	credentialtest.SignIn(t)
	st, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	said := &[]string{}
	say := func(format string, args ...any) { *said = append(*said, fmt.Sprintf(format, args...)) }
	return Homes{Keepers: keeperclient.Keepers{Store: st, Say: say}, Agents: agent.NewCatalog("")}, said
}
