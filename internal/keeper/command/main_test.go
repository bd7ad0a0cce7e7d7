package command

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
