package policyfile

import (
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/document"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func rule(tb testing.TB, a policy.Action, text string) policy.Rule {
	tb.Helper()
	r, err := policy.ParseRule(a, text)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func decodeBlock(yaml string) (policy.Block, error) {
	n, err := document.ParseYAML([]byte(yaml))
	if err != nil {
		return policy.Block{}, err
	}
	return policy.ReadBlock(n, "the block")
}
