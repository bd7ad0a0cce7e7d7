package tokenrefresh

import (
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// TestQuestion checks that some servers get the program's public secret, and others none.
func TestQuestion(t *testing.T) {
	how := spec.AgentLogin{Client: "tool"}
	for secret, want := range map[string]string{
		"":     "client_id=tool&grant_type=refresh_token&refresh_token=refresh-1",
		"GOC&": "client_id=tool&client_secret=GOC%26&grant_type=refresh_token&refresh_token=refresh-1",
	} {
		how.ClientSecret = secret
		if body, kind, err := question(&how, "refresh-1"); err != nil || string(body) != want || kind != "application/x-www-form-urlencoded" {
			t.Errorf("%s, %s, %v", body, kind, err)
		}
	}
	how.ClientSecret, how.Form = "GOC&", spec.FormJSON
	if body, _, err := question(&how, "refresh-1"); err != nil || !strings.Contains(string(body), `"client_secret":"GOC\u0026"`) {
		t.Errorf("%s, %v", body, err)
	}
}

// TestGranted checks that other members of an answer do not spoil its tokens.
func TestGranted(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`"expires_in":3600`:               time.Hour,
		`"expires_in":3600.0`:             time.Hour,
		`"expires_in":"3600"`:             time.Hour,
		`"expires_in":"soon"`:             0,
		`"expires_in":"NaN"`:              0,
		`"expires_in":-5`:                 0,
		`"expires_in":1e300`:              100 * 365 * 24 * time.Hour,
		`"expires_in":null`:               0,
		`"expires_in":[1]`:                0,
		`"expires_in":60,"id_token":{}`:   time.Minute,
		`"expires_in":60,"id_token":null`: time.Minute,
	} {
		g, err := granted(200, []byte(`{"access_token":"access-2","refresh_token":"refresh-2",`+text+`}`))
		if err != nil || g.Access != "access-2" || g.Refresh != "refresh-2" || g.Identity != "" || g.Lifetime != want {
			t.Errorf("%s: %+v, %v", text, g, err)
		}
	}
	g, err := granted(200, []byte(`{"access_token":"access-2","id_token":"id-2"}`))
	if err != nil || g.Identity != "id-2" {
		t.Errorf("%+v, %v", g, err)
	}
}

// TestQuotes checks that a server's word for a refusal is told inside, unless it repeats a secret.
func TestQuotes(t *testing.T) {
	const secret = "aRefreshTokenOfLettersOnly"
	for word, want := range map[string]bool{
		"":                           false,
		"invalid_grant":              false,
		secret:                       true,
		"bad-" + secret:              true,
		secret[:12]:                  true,
		"x" + secret[len(secret)-8:]: true,
		secret[:4]:                   false,
	} {
		if got := quotes(word, secret, ""); got != want {
			t.Errorf("%q: %v", word, got)
		}
	}
	if !quotes("the-pin-word", "pin") {
		t.Error("a short secret is not seen")
	}
}
