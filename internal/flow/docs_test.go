package flow

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentedFlows reads the examples of the documentation.
func TestDocumentedFlows(t *testing.T) {
	text, err := os.ReadFile("../../docs/flows.md")
	must(t, err)
	n := 0
	for rest := string(text); ; n++ {
		_, after, found := strings.Cut(rest, "```yaml\n")
		if !found {
			break
		}
		example, behind, _ := strings.Cut(after, "```")
		if !strings.HasPrefix(example, "name: ") {
			example = "name: example\n" + example
		}
		if _, err := Parse("flow.yaml", []byte(example)); err != nil {
			t.Errorf("%v:\n%s", err, example)
		}
		rest = behind
	}
	if n < 2 {
		t.Errorf("there are %d", n)
	}
}
