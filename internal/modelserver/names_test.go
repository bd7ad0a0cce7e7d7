package modelserver

import (
	"strings"
	"testing"
)

// What an error says of the tools a client offers does not grow with them.
func TestOfferedNames(t *testing.T) {
	long := strings.Repeat("n", 500_000)
	offered := make([]offer, 40_000)
	for i := range offered {
		offered[i] = offer{name: "a", namespace: long}
	}
	if n := len(names(offered)); n > 64<<10 {
		t.Errorf("%d bytes", n)
	}
	if got := names([]offer{{name: "a", namespace: "n"}, {name: "b"}}); got != "n.a, b" {
		t.Error(got)
	}
	var d dialogue
	for range 100_000 {
		d.addSystem("You are a title generator")
	}
	if len(d.system) > maxSystem || !strings.HasPrefix(d.system, "You are a title generator") {
		t.Errorf("%d bytes", len(d.system))
	}
}
