package renew

import (
	"testing"

	"go.uber.org/goleak"
)

// What a test began must end with it: a flow that outlives its gateway is one that
// nobody judges any more.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
