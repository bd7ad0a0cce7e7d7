package flow

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func parse(t testing.TB, text string) *flowplan.Flow {
	t.Helper()
	f, err := flowplan.Parse("flow.yaml", []byte(text))
	must(t, err)
	return f
}
