package flowplan

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentedFlows checks that each flow in the documentation can run.
func TestDocumentedFlows(t *testing.T) {
	text, err := os.ReadFile("../../../docs/guide/flows.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		flow, _, _ := strings.Cut(block, "```")
		if _, err := Parse("flow.yaml", []byte(flow)); err != nil {
			t.Errorf("%v\n%s", err, flow)
		}
		n++
	}
	if n < 3 {
		t.Errorf("%d flows are in it", n)
	}
}
