package grants

import (
	"os"
	"testing"

	"github.com/bothy-dev/bothy/internal/leaktest"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/vault/sealer"
)

func TestMain(m *testing.M) {
	if os.Args[0] == vault.Argv0 {
		os.Exit(sealer.Main(os.Stdin, os.Stdout))
	}
	leaktest.Main(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
