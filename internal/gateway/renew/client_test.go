package renew

import (
	"testing"
	"time"
)

// What a server says beside the tokens does not make them worse.
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
