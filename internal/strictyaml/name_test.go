package strictyaml

import (
	"strings"
	"testing"
)

func TestIsName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "a-b_9": true, strings.Repeat("a", 40): true,
		"": false, "9a": false, "-a": false, "_a": false, "a.b": false, "a b": false, "ä": false,
		"a\n": false, strings.Repeat("a", 41): false,
	} {
		if IsName(name) != want {
			t.Errorf("%q", name)
		}
	}
}
