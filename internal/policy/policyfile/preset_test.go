package policyfile

import (
	"os"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy"
)

// TestDocumentation checks that the page of presets lists every host of every preset with its reason,
// and that the examples of all pages about the network can be read.
func TestDocumentation(t *testing.T) {
	page := readPage(t, "reference/presets.md")
	for _, name := range policy.PresetNames() {
		p, err := policy.FindPreset(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("preset %s is missing", name)
		}
		for _, r := range p.Block.Allow {
			host := strings.TrimSuffix(strings.TrimSuffix(r.Target.String(), ":443"), ":80")
			if !strings.Contains(page, "`"+host+"`") || !strings.Contains(page, r.Why) {
				t.Errorf("preset %s: %s (%s) is missing", name, host, r.Why)
			}
		}
	}
	examples := strings.Split(page, "```yaml\n")[1:]
	for _, name := range []string{"network", "network-http", "git-over-ssh", "upload-limits"} {
		found := strings.Split(readPage(t, "guide/"+name+".md"), "```yaml\n")[1:]
		if len(found) == 0 {
			t.Errorf("%s has no example", name)
		}
		examples = append(examples, found...)
	}
	for _, e := range examples {
		e, _, _ = strings.Cut(e, "```")
		if strings.HasPrefix(e, "version:") {
			if _, err := Decode([]byte(e)); err != nil {
				t.Errorf("example\n%s%v", e, err)
			}
			continue
		}
		if _, err := decodeBlock(e); err != nil {
			t.Errorf("example\n%s%v", e, err)
		}
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}
