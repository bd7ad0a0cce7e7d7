package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestResume checks that a download continues after breaks while it makes progress, and not after errors
// that a retry cannot fix.
func TestResume(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		each  int64 // bytes of a call
		err   error
		calls int
		ok    bool
	}{
		"whole":       {100, broken, 1, true},
		"in pieces":   {10, broken, 10, true},
		"no progress": {0, broken, 1, false},
		"for ever":    {1, broken, attempts, false},
		"slow":        {10, fmt.Errorf("%w: %w", broken, ErrSlow), 1, false},
		"final":       {10, errors.New("final"), 1, false},
	} {
		done, calls := int64(0), 0
		err := Resume(t.Context(), func() int64 { return done }, func(err error) bool { return errors.Is(err, broken) }, func(context.Context) error {
			calls++
			if done += c.each; done >= 100 {
				return nil
			}
			return c.err
		})
		if (err == nil) != c.ok || !c.ok && !errors.Is(err, c.err) || calls != c.calls {
			t.Errorf("%s: %v after %d calls", name, err, calls)
		}
	}
}

// TestCheckRedirect checks that no redirect leaves TLS, even through a third server.
func TestCheckRedirect(t *testing.T) {
	at := func(s string) *http.Request {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Request{URL: u}
	}
	secure, clear := at("https://registry.example/"), at("http://127.0.0.1:5000/")
	for name, c := range map[string]struct {
		to           *http.Request
		via          []*http.Request
		ok, asDenied bool
	}{
		"between secure ones": {secure, []*http.Request{secure}, true, false},
		"between clear ones":  {clear, []*http.Request{clear}, true, false},
		"to clear":            {clear, []*http.Request{clear, secure}, false, true},
		"to clear, later":     {clear, []*http.Request{secure, clear}, false, true},
		"with a password":     {at("https://a:b@registry.example/"), []*http.Request{secure}, false, false},
		"too many":            {secure, make([]*http.Request, maxRedirects+1), false, false},
	} {
		err := CheckRedirect(c.to, c.via)
		if (err == nil) != c.ok || errors.Is(err, spec.ErrDenied) != c.asDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
}
