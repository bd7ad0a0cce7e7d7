package npmrc

import (
	"maps"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	env := func(name string) (string, bool) {
		if name == "UNSET" {
			return "", false
		}
		return "value-of-" + name, true
	}
	got := Parse(strings.Join([]string{
		"; a comment", "# another", "",
		"registry = https://a.example/ ; behind it",
		"//a.example/:_authToken=${TOKEN}",
		"b=${UNSET}", "c=x${UNSET?}y", "d=${open", "e",
		`f="quoted ; # \n \"end\""`, `g='single ${TOKEN}'`, `h=a\;b\#c\d`,
		"ca[]=one", "ca[]=two", "k=a=b",
		"[section]", "registry=https://elsewhere.example/",
	}, "\r\n"), env)
	want := Settings{
		"registry": "https://a.example/", "//a.example/:_authToken": "value-of-TOKEN",
		"b": "${UNSET}", "c": "xy", "d": "${open", "e": "true",
		"f": "quoted ; # \n \"end\"", "g": "single value-of-TOKEN", "h": `a;b#c\d`, "ca": "one\ntwo", "k": "a=b",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
