package oauthfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/sealedfile"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

var (
	seal      = &wire.Seal{Key: bytes.Repeat([]byte{7}, sealedfile.KeySize), Sealed: "the key, sealed"}
	otherSeal = &wire.Seal{Key: bytes.Repeat([]byte{8}, sealedfile.KeySize), Sealed: "the key, sealed"}
	first     = Grant{Access: "access-1-REAL", Refresh: "refresh-1-REAL", Lifetime: time.Hour}
	second    = Grant{Access: "access-2-REAL", Refresh: "refresh-2-REAL", Lifetime: time.Hour}
)

// sealedIn returns a login that was made inside.
func sealedIn(t testing.TB) File {
	t.Helper()
	f := File{Path: filepath.Join(t.TempDir(), "login/lease.json"), How: how, Inside: true, Secret: "tool-login@box", Seal: seal}
	_, err := f.Create(first, time.Now())
	must(t, err)
	return f
}

// unwritten checks that no file contains a token.
func unwritten(t *testing.T, f File) {
	t.Helper()
	files, err := filepath.Glob(f.Path + "*")
	if err != nil || len(files) == 0 {
		t.Errorf("there is no file: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		must(t, err)
		var s sealed
		_ = json.Unmarshal(text, &s) // a truncated file is compared as it is
		if s.Login != nil {
			text = append(text, s.Login.Text...)
		}
		if bytes.Contains(text, []byte("REAL")) {
			t.Errorf("%s has a token: %s", name, text)
		}
	}
}

// TestSealed checks that a login made inside is sealed from the beginning, and that its key
// alone suffices to read and renew it.
func TestSealed(t *testing.T) {
	f := sealedIn(t)
	unwritten(t, f)
	if info, err := os.Stat(f.Path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	h, err := f.Hold(t.Context())
	must(t, err)
	must(t, h.Ready())
	must(t, h.Put(second, time.Now()))
	h.Release()
	unwritten(t, f)
	only(t, f)
	if key, err := f.SealedKey(); key != seal.Sealed || err != nil {
		t.Errorf("%q, %v", key, err)
	}
	d, err := f.Read()
	if err != nil || d.Access != second.Access || d.Refresh != second.Refresh || time.Until(d.Expires) > time.Hour {
		t.Errorf("%+v, %v", d, err)
	}
	for name, s := range map[string]*wire.Seal{"another": otherSeal, "none": nil, "an empty one": {}} {
		f := f
		f.Seal = s
		if _, err := f.Read(); err == nil || strings.Contains(err.Error(), "REAL") {
			t.Errorf("read with %s key: %v", name, err)
		}
		if _, err := f.Hold(t.Context()); err == nil {
			t.Errorf("held with %s key", name)
		}
	}
	f.Seal = nil
	if _, err := f.Create(second, time.Now()); !errors.Is(err, errUnkeyed) {
		t.Errorf("written without a key: %v", err)
	}
}

// TestSealedLeft checks that tokens left beside an unreadable file are sealed, too.
func TestSealedLeft(t *testing.T) {
	f := sealedIn(t)
	h, err := f.Hold(t.Context())
	must(t, err)
	whole, err := os.ReadFile(f.Path)
	must(t, err)
	must(t, os.WriteFile(f.Path, whole[:20], 0o600))
	if err := h.Put(second, time.Now()); err == nil || !strings.Contains(err.Error(), "the new tokens are in") {
		t.Error(err)
	}
	h.Release()
	unwritten(t, f)
	must(t, os.WriteFile(f.Path, whole, 0o600))
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(f.Path, old, old))
	h, err = f.Hold(t.Context())
	must(t, err)
	defer h.Release()
	if h.Access != second.Access {
		t.Error(h.Access)
	}
	only(t, f)
}

// TestSealedDamaged checks that a changed file gives nothing, and that the error says what to do.
func TestSealedDamaged(t *testing.T) {
	f := sealedIn(t)
	whole, err := os.ReadFile(f.Path)
	must(t, err)
	var s sealed
	must(t, json.Unmarshal(whole, &s))
	with := func(change func(*sealed, *sealedLogin)) string {
		l := *s.Login
		l.Text = bytes.Clone(l.Text)
		s := sealed{s.Version, &l}
		change(&s, &l)
		text, err := json.Marshal(s)
		must(t, err)
		return string(text)
	}
	for name, c := range map[string]struct{ text, want, hint string }{
		"in clear":    {typical, "it is not sealed", ""},
		"empty":       {"", "not a JSON object", ""},
		"cut off":     {string(whole[:len(whole)/2]), "not a JSON object", ""},
		"two":         {string(whole) + string(whole), "after its JSON object", ""},
		"null":        {`{"version":1,"bothy_login":null}`, "its sealed content is missing", ""},
		"odd":         {`{"version":1,"bothy_login":7}`, "its sealed content is missing", ""},
		"no version":  {with(func(s *sealed, _ *sealedLogin) { s.Version = 0 }), "its sealed content is missing", ""},
		"newer":       {with(func(s *sealed, _ *sealedLogin) { s.Version = 99 }), "newer Bothy", "upgrade bothy: this version neither reads nor changes it"},
		"no key":      {with(func(_ *sealed, l *sealedLogin) { l.Key = "" }), "its sealed content is missing", ""},
		"no text":     {with(func(_ *sealed, l *sealedLogin) { l.Text = nil }), "its sealed content is missing", ""},
		"a bit":       {with(func(_ *sealed, l *sealedLogin) { l.Text[len(l.Text)-1] ^= 1 }), "its sealed content was changed", ""},
		"a bit ahead": {with(func(_ *sealed, l *sealedLogin) { l.Text[0] ^= 1 }), "its sealed content was changed", ""},
		"short":       {with(func(_ *sealed, l *sealedLogin) { l.Text = l.Text[:len(l.Text)-1] }), "its sealed content was changed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, os.WriteFile(f.Path, []byte(c.text), 0o600))
			if c.hint == "" {
				c.hint = f.Again()
			}
			for what, read := range map[string]func() error{
				"read": func() error { _, err := f.Read(); return err },
				"hold": func() error { _, err := f.Hold(t.Context()); return err },
			} {
				if err := read(); err == nil || !strings.Contains(err.Error(), c.want) || spec.Hint(err) != c.hint || strings.Contains(err.Error(), "REAL") {
					t.Errorf("%s: %v; %s", what, err, spec.Hint(err))
				}
			}
			if key, err := f.SealedKey(); (name == "in clear") != (key == "" && err == nil) {
				if name != "a bit" && name != "a bit ahead" && name != "short" {
					t.Errorf("the key %q, %v", key, err)
				}
			}
		})
	}
}

// TestSealClear checks that a plain-text login of an earlier version is sealed, together
// with a newer one that was not renamed.
func TestSealClear(t *testing.T) {
	for name, left := range map[string]string{"alone": "", "with newer": strings.ReplaceAll(typical, "-1-", "-2-"), "with a half sealed": `{"version":1,"bothy_login":{"key":"x","text":"QUJD"}}`} {
		t.Run(name, func(t *testing.T) {
			f := signedIn(t, how, typical)
			f.Inside, f.Secret, f.Seal = true, "tool-login@box", seal
			if left != "" {
				must(t, os.WriteFile(f.written(), []byte(left), 0o600))
			}
			if key, err := f.SealedKey(); key != "" || err != nil {
				t.Fatalf("%q, %v", key, err)
			}
			d, err := f.SealClear(t.Context())
			must(t, err)
			if d.Access != "access-1-REAL" && name != "with newer" || d.Access != "access-2-REAL" && name == "with newer" || valueAt(d.all, "/other/key") != "other-REAL" {
				t.Errorf("%+v", d)
			}
			unwritten(t, f)
			only(t, f)
			again, err := f.Read()
			if err != nil || again.Access != d.Access {
				t.Errorf("%+v, %v", again, err)
			}
		})
	}
	// Without a key it stays as it is.
	f := signedIn(t, how, typical)
	f.Inside, f.Secret = true, "tool-login@box"
	if _, err := f.SealClear(t.Context()); !errors.Is(err, errUnkeyed) {
		t.Error(err)
	}
	if text, err := os.ReadFile(f.Path); string(text) != typical || err != nil {
		t.Errorf("%s, %v", text, err)
	}
}
