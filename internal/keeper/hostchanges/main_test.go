package hostchanges

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

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
