package policyfile

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/policy"
)

// TestCarriageReturns adds rules to files with line ends that YAML accepts and other programs do not
// count.
func TestCarriageReturns(t *testing.T) {
	for _, text := range []string{
		"version: 1\rallow: [a.example]\r",
		"version: 1\r\nallow: [a.example]\r\n",
		"version: 1\n\rallow: [a.example]\n",
		"\r\r\rversion: 1\nallow: [a.example]",
		"version: 1\n\r\r\rallow:\r  - a.example\n",
	} {
		file, err := Decode([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		for _, r := range []policy.Rule{rule(t, policy.Allow, "added.example:4433"), rule(t, policy.Deny, "denied.example:4433")} {
			if err := file.Add(r); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
		again, err := Decode(file.Encode())
		if err != nil || len(again.Allow) != 2 || len(again.Deny) != 1 {
			t.Errorf("%q became %q (%v)", text, file.Encode(), err)
		}
	}
}
