package provision

import (
	"errors"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestLendNothing checks that none cannot be combined with another tool, in any form.
func TestLendNothing(t *testing.T) {
	for _, words := range [][]string{{"none,npm"}, {"npm, none"}, {"none", "npm"}} {
		if _, _, err := (&Provisioner{}).tokenChoices(words); !errors.Is(err, spec.ErrUsage) || err.Error() != "lend none goes with no other" {
			t.Errorf("%q: %v", words, err)
		}
	}
	for _, words := range [][]string{nil, {"none"}, {"git,npm"}} {
		if _, _, err := (&Provisioner{}).tokenChoices(words); err != nil {
			t.Errorf("%q: %v", words, err)
		}
	}
}
