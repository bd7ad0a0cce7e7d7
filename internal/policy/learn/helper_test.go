package learn

import (
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/document"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// policyOf compiles the user's rules, written as in a file.
func policyOf(t *testing.T, yaml string) *policy.Policy {
	t.Helper()
	n, err := document.ParseYAML([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	b, err := policy.ReadBlock(n, "the block")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Compile(1, policy.Input{Layer: policy.LayerUser, Block: b})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
