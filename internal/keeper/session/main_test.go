package session

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/leaktest"
	"github.com/bothy-dev/bothy/internal/wire"
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

// startStream returns the stream of a program that init claims to have started.
func startStream(t testing.TB, l *initlink.Link, in *keepertest.Inside) *initlink.Stream {
	t.Helper()
	go in.Starts(7)
	s, _, err := l.Spawn(t.Context(), wire.Spawn{Args: []string{"sh"}})
	must(t, err)
	return s
}
