package lint

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/policy"
)

// TestAttackA11FrontingIsFound checks that a rule for a network on which fronting works is reported (A11).
func TestAttackA11FrontingIsFound(t *testing.T) {
	found, err := Rules(noon, policy.Input{Layer: policy.LayerUser, Block: blockOf(t, `{allow: [d111.cloudfront.net]}`)})
	if err != nil || len(found) != 1 || found[0].Kind != KindFronting {
		t.Errorf("lint: %v, %v", found, err)
	}
}
