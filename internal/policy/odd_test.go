package policy

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/policy/hostname"
)

// TestOddHosts checks that a host in an odd spelling is either the one that every resolver reads, or
// refused. No text is folded before it is known to be ASCII, and no name is accepted that some resolvers
// read as an address.
func TestOddHosts(t *testing.T) {
	for text, want := range map[string]string{
		"API.Example.COM": "api.example.com", "api.example.com.": "api.example.com", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"\u212aube.example.com": "", "\u017fite.example.com": "", "bücher.example": "", "api。example.com": "", "api\uff0eexample.com": "",
		"api%2eexample.com": "", "%61pi.example.com": "", "api.example.com..": "", "api..example.com": "", ".example.com": "",
		"api.example.com\x00": "", "api.example.com\n": "", " api.example.com": "", "api.example.com/": "", "user@api.example.com": "",
		"0x7f.1": "", "0x7f000001": "", "127.1": "", "2130706433": "", "0177.0.0.1": "", "127.0.0.0x1": "", "a.0x1": "", "a.1": "", "127.0.0.1.": "",
	} {
		got, err := hostname.Clean(text)
		if want == "" && err == nil || want != "" && (err != nil || got != want) {
			t.Errorf("the name %q is %q, %v", text, got, err)
		}
		if _, err := ParseRule(Allow, text); want == "" && err == nil {
			t.Errorf("a rule for %q is taken", text)
		}
	}
	for text, isTaken := range map[string]bool{
		"127.0.0.1": true, "[::1]": true, "::ffff:127.0.0.1": false, "[::ffff:127.0.0.1]": false, "[fe80::1%eth0]": false, "127.0.0.1/8": false,
		"[0:0:0:0:0:ffff:7f00:1]": false, "127.000.000.001": false,
	} {
		if r, err := ParseRule(Allow, text); (err == nil) != isTaken {
			t.Errorf("the address %q: %v, %v", text, r, err)
		}
	}
}
