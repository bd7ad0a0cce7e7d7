package lint

import (
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/document"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// blockOf reads a block in the form of a file.
func blockOf(t *testing.T, yaml string) policy.Block {
	t.Helper()
	n, err := document.ParseYAML([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	b, err := policy.ReadBlock(n, "the block")
	if err != nil {
		t.Fatal(err)
	}
	return b
}
