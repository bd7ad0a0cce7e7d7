package inject

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// TestC2EchoBasic checks that the form in which a value is sent with a user does not reveal the
// value either: neither as it is sent, nor in any encoding of that, whatever the user and wherever
// the value is placed (C2).
func TestC2EchoBasic(t *testing.T) {
	for name, tt := range map[string]struct {
		place spec.Place
		says  string // from inside
		sends string
	}{
		"a user of the lease":   {spec.Place{Kind: spec.PlaceBasic, User: "me"}, "x:" + placeholder, "me:" + value},
		"no user":               {spec.Place{Kind: spec.PlaceBasic}, ":" + placeholder, ":" + value},
		"a user of one letter":  {spec.Place{Kind: spec.PlaceBasic}, "x:" + placeholder, "x:" + value},
		"a user of two letters": {spec.Place{Kind: spec.PlaceAuthorization}, "xy:" + placeholder, "xy:" + value},
		"as the user":           {spec.Place{Kind: spec.PlaceBasic}, placeholder + ":", value + ":"},
		"as the user, for git":  {spec.Place{Kind: spec.PlaceBasic}, placeholder + ":x-oauth-basic", value + ":x-oauth-basic"},
		"twice":                 {spec.Place{Kind: spec.PlaceAuthorization}, placeholder + ":" + placeholder, value + ":" + value},
	} {
		t.Run(name, func(t *testing.T) { echoBasic(t, tt.place, tt.says, tt.sends) })
	}
}

func echoBasic(t *testing.T, place spec.Place, says, sends string) {
	w := newWorld(t, false, func(rw http.ResponseWriter, r *http.Request) {
		got := r.Header.Get("Authorization")
		if got != "Basic "+std(sends) {
			t.Errorf("the server got %q", r.Header)
		}
		for _, e := range encodings {
			if e.name == r.URL.Query().Get("as") {
				got = e.do(got)
			}
		}
		for i := 0; i < len(got); i += 7 {
			_, _ = io.WriteString(rw, got[i:min(i+7, len(got))])
			rw.(http.Flusher).Flush()
		}
	}, func(l *wire.Loan) { l.Place = place })
	digits := std(sends)
	digits = digits[len(digits)/2-8 : len(digits)/2+8] // of the value, wherever it is
	for _, e := range encodings {
		got := w.get("/?as="+url.QueryEscape(e.name), "Authorization", "Basic "+std(says))
		seen := e.undo(got)
		seen += debase(base64.RawStdEncoding)(seen)
		if strings.Contains(seen, value[8:]) || strings.Contains(seen, value[:len(value)-8]) || strings.Contains(seen, digits) || strings.Contains(got, e.do(std(sends))) {
			t.Errorf("%s: came back %s", e.name, got)
		}
		if !strings.Contains(got, "200 OK") {
			t.Errorf("%s: came back %s", e.name, got)
		}
	}
	if errs := w.refusals(); len(errs) > 0 {
		t.Error(errs)
	}
}

// TestC2EchoQuery checks that a value escaped in a query is masked as it was sent, too.
func TestC2EchoQuery(t *testing.T) {
	const hard = "wJalr/XUtnFEMI+K7MDENG=bPxRfiCY"
	w := newWorld(t, false, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, std("GET "+r.URL.RequestURI())+"\n"+tohex(r.URL.RawQuery))
	}, func(l *wire.Loan) {
		l.Place, l.Value = spec.Place{Kind: spec.PlaceQuery, Name: "key"}, wire.Value(hard)
	})
	got := w.get("/?key="+placeholder, "Authorization", "none")
	if !strings.Contains(w.reached(), url.QueryEscape(hard)) {
		t.Fatal(w.reached())
	}
	if seen := debase(base64.RawStdEncoding)(got) + dehex(got); strings.Contains(seen, url.QueryEscape(hard)[8:]) {
		t.Errorf("came back %s", got)
	}
}
