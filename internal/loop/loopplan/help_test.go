package loopplan

import (
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func plan() *Plan {
	return &Plan{
		Agent: "mine", Prompt: "work", Template: DefaultTemplate, Promise: "COMPLETE", Abort: "NO", Until: []string{"true"},
		Limits: Limits{MaxIterations: 10, Gate: spec.Duration(time.Minute)}, Stall: UsualStall,
	}
}
