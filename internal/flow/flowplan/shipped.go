package flowplan

import (
	"embed"
	"io/fs"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

//go:embed shipped/*.yaml
var shipped embed.FS

// ShippedNames returns the names of the flows that come with bothy.
func ShippedNames() (names []string) {
	list, _ := fs.ReadDir(shipped, "shipped") // it is in the binary
	for _, e := range list {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Shipped returns the text of a shipped flow.
func Shipped(name string) ([]byte, error) {
	text, err := shipped.ReadFile("shipped/" + name + ".yaml")
	if err != nil {
		return nil, spec.Errorf(spec.ErrNotFound, "no flow named %q comes with bothy", name).WithHint("there are %s", strings.Join(ShippedNames(), ", "))
	}
	return text, nil
}
