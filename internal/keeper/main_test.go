package keeper

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// connectInit makes a link and the inside's end of it.
func connectInit(t testing.TB) (*initlink.Link, *keepertest.Inside) {
	t.Helper()
	return keepertest.Connect(t, initlink.New)
}
