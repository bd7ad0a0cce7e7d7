package hostname

import "testing"

func TestCleanName(t *testing.T) {
	for in, want := range map[string]string{
		"example.com": "example.com", "EXAMPLE.com.": "example.com", "_a.example": "_a.example", "a": "a",
		"": "", ".": "", "..": "", "a..b": "", "a b": "", "a\x00b": "", "é.example": "", "127.0.0.1": "",
		"0x7f.1": "", "1": "", "0x": "", "[::1]": "", "a:80": "", "a/b": "", "*.a": "", "-a": "", "a.b-": "",
		"169.254.169.254.": "", "1.2.3.4.nip.io": "1.2.3.4.nip.io", "4.3.2.1.in-addr.arpa": "4.3.2.1.in-addr.arpa",
	} {
		got, err := Clean(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("CleanName(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}
