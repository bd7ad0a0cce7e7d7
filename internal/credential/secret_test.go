package credential

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

func TestStoredSecret(t *testing.T) {
	e := newDesk(t)
	must(t, e.SetSecret(here, stored("mine", canary+"\n")))
	sb, l := lent(t, e, "mine")
	loans := e.ForStart(here, sb).Loans
	if len(loans) != 1 || loans[0].ID != l.ID || string(loans[0].Value) != canary {
		t.Fatalf("lent are %+v", loans)
	}
	nowhere(t, e)
	if s := fmt.Sprintf("%v %+v %s %q", loans[0], loans, loans[0].Value, loans[0].Value); strings.Contains(s, canary) {
		t.Error("a loan prints its value")
	}
	must(t, e.SetSecret(here, stored("mine", canary+"2")))
	if loans := e.ForStart(here, sb).Loans; len(loans) != 1 || string(loans[0].Value) != canary+"2" || loans[0].Placeholder != l.Placeholder {
		t.Errorf("after a change: %+v", loans)
	}
	must(t, e.RemoveSecret(here, "mine"))
	if loans := e.ForStart(here, sb).Loans; len(loans) != 0 {
		t.Errorf("after the removal: %+v", loans)
	}
	if err := e.RemoveSecret(here, "mine"); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("the second removal: %v", err)
	}
}

// TestConcurrentSecrets checks that concurrent callers make one key, and lose no value.
func TestConcurrentSecrets(t *testing.T) {
	e := newDesk(t)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			if err := e.SetSecret(here, stored(fmt.Sprint("s", i), fmt.Sprint(canary, i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	d, err := e.vault().Read()
	must(t, err)
	for i := range 6 {
		if v, err := e.readValue(d, fmt.Sprint("s", i)); err != nil || string(v) != fmt.Sprint(canary, i) {
			t.Errorf("s%d: %v", i, err)
		}
	}
	nowhere(t, e)
}

func TestSources(t *testing.T) {
	e := newDesk(t)
	file := filepath.Join(t.TempDir(), "value")
	must(t, os.WriteFile(file, []byte(canary+"\n"), 0o600))
	t.Setenv("MY_CANARY", canary)
	shell := func(script string) vault.Source {
		return vault.Source{Kind: vault.SourceCommand, Command: []string{"/bin/sh", "-c", script}}
	}
	for _, tt := range []struct {
		name   string
		source vault.Source
		wrong  string // the text of the error; empty: no error
	}{
		{"variable", vault.Source{Kind: vault.SourceEnvironment, Variable: "MY_CANARY"}, ""},
		{"no-variable", vault.Source{Kind: vault.SourceEnvironment, Variable: "NOT_THERE"}, "NOT_THERE is not set"},
		{"command", shell("cat " + file), ""},
		{"failing", shell("echo " + canary + "; echo locked >&2; exit 3"), "exit status 3: locked"},
		{"silent", shell("true"), "empty"},
		{"file", vault.Source{Kind: vault.SourceFile, Path: file}, ""},
		{"no-file", vault.Source{Kind: vault.SourceFile, Path: file + "x"}, "no such file"},
		{"directory", vault.Source{Kind: vault.SourceFile, Path: filepath.Dir(file)}, "not a regular file"},
		{"keyring", vault.Source{Kind: vault.SourceKeyring, Attributes: map[string]string{"a": "b"}}, "no desktop keyring"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must(t, e.SetSecret(here, NewSecret{Name: tt.name, Source: tt.source}))
			d, err := e.vault().Read()
			must(t, err)
			v, err := e.readValue(d, tt.name)
			if tt.wrong == "" && (err != nil || string(v) != canary) {
				t.Errorf("%q, %v", v, err)
			}
			if tt.wrong != "" && (err == nil || v != nil || !strings.Contains(err.Error(), tt.wrong) || strings.Contains(err.Error(), canary)) {
				t.Errorf("%q, %v", v, err)
			}
		})
	}
	// The failing command has the canary in its text; nothing else may.
	must(t, e.RemoveSecret(here, "failing"))
	nowhere(t, e)
}

// TestSourceFailsAtStart checks that a sandbox starts without a value that cannot be read, and that
// the user is told.
func TestSourceFailsAtStart(t *testing.T) {
	e := newDesk(t)
	file := filepath.Join(t.TempDir(), "value")
	must(t, os.WriteFile(file, []byte(canary), 0o600))
	must(t, e.SetSecret(here, NewSecret{Name: "file", Source: vault.Source{Kind: vault.SourceFile, Path: file}}))
	must(t, e.SetSecret(here, stored("mine", canary)))
	sb, gone := lent(t, e, "file")
	still, err := e.Lend(here, sb, "mine", vault.Terms{Hosts: []string{"b.example.com"}})
	must(t, err)
	must(t, os.Remove(file))
	n := e.ForStart(here, sb)
	for _, l := range n.Loans {
		if want := map[string]string{gone.ID: "", still.ID: canary}[l.ID]; string(l.Value) != want {
			t.Errorf("%s has another value than it should", l.Secret)
		}
	}
	if len(e.said) != 1 || !strings.Contains(e.said[0], "sandbox "+sb.Name+" ") || !strings.Contains(e.said[0], "secret file: ") || !strings.Contains(e.said[0], "bothy stop "+sb.Name) {
		t.Errorf("said: %q", e.said)
	}
	if len(n.Unlent) != 1 || n.Unlent[0].Lease != gone.ID || n.Unlent[0].Secret != "file" || !strings.Contains(n.Unlent[0].Reason, file) || n.Unlent[0].Hint == "" {
		t.Errorf("not lent are %+v", n.Unlent)
	}
}

// TestUnlent checks that an invalid place concerns only its own lease, and that the record of a failed
// command does not contain the command's output.
func TestUnlent(t *testing.T) {
	e := newDesk(t)
	must(t, e.SetSecret(here, stored("mine", canary)))
	sb, fine := lent(t, e, "mine")
	const says = "it says something"
	script := vault.Source{Kind: vault.SourceCommand, Command: []string{"/bin/sh", "-c", "echo " + says + " >&2; exit 3"}}
	must(t, e.SetSecret(here, NewSecret{Name: "failing", Source: script}))
	nowhere, failing := *fine, *fine
	nowhere.ID, nowhere.Place = "lease-nowhere", spec.Place{Kind: spec.PlaceHeader, Name: "Host"}
	failing.ID, failing.Secret = "lease-failing", "failing"
	must(t, vault.WriteLeases(e.Store.Sandbox(sb.ID).Leases(), []spec.Lease{nowhere, failing, *fine}))
	n := e.ForStart(here, sb)
	if len(n.Loans) != 2 || string(n.Loans[1].Value) != canary || n.Loans[0].Value != nil {
		t.Errorf("lent are %+v", n.Loans)
	}
	if len(n.Unlent) != 2 || n.Unlent[0].Lease != nowhere.ID || !strings.Contains(n.Unlent[0].Hint, "revoke "+nowhere.ID) ||
		n.Unlent[1].Secret != "failing" || !strings.HasSuffix(n.Unlent[1].Reason, "exit status 3") {
		t.Errorf("not lent are %+v", n.Unlent)
	}
	if len(e.said) != 2 || !strings.Contains(e.said[1], says) {
		t.Errorf("said: %q", e.said)
	}
}

func TestPassphrase(t *testing.T) {
	racetest.Skip(t)
	e := newDesk(t)
	words := filepath.Join(t.TempDir(), "words")
	must(t, os.WriteFile(words, []byte("open sesame\n"), 0o600))
	t.Setenv(passphraseVar, words)
	must(t, e.SetSecret(here, stored("mine", canary)))
	sb, _ := lent(t, e, "mine")
	nowhere(t, e)
	if id, err := os.ReadFile(e.vault().Identity()); err != nil || strings.Contains(string(id), "AGE-SECRET-KEY") {
		t.Errorf("the key lies there in clear: %v", err)
	}
	value := func() ([]byte, error) {
		d, err := e.vault().Read()
		must(t, err)
		return e.readValue(d, "mine")
	}
	must(t, os.WriteFile(words, []byte("open barley"), 0o600))
	if v, err := value(); !errors.Is(err, spec.ErrDenied) || v != nil {
		t.Errorf("with the wrong passphrase: %v", err)
	}
	if loans := e.ForStart(here, sb).Loans; len(loans) != 1 || loans[0].Value != nil {
		t.Error("lent with the wrong passphrase")
	}
	must(t, os.Unsetenv(passphraseVar))
	if _, err := value(); !errors.Is(err, spec.ErrDenied) || spec.Hint(err) == "" {
		t.Errorf("without one: %v", err)
	}
	e.Passphrase = func(bool) ([]byte, error) { return []byte("open sesame"), nil }
	if v, err := value(); err != nil || string(v) != canary {
		t.Errorf("from the user: %v", err)
	}
	// To add a value needs no passphrase.
	e.Passphrase = func(bool) ([]byte, error) { return nil, errors.New("asked") }
	must(t, e.SetSecret(here, stored("another", canary)))
}

// TestPassphraseFile checks that a passphrase is never cut: the key would be locked with another one.
func TestPassphraseFile(t *testing.T) {
	e := newDesk(t)
	words := filepath.Join(t.TempDir(), "words")
	t.Setenv(passphraseVar, words)
	for what, text := range map[string]string{"larger than": strings.Repeat("a", store.MaxSmall+1), "empty": "\r\n"} {
		must(t, os.WriteFile(words, []byte(text), 0o600))
		err := e.SetSecret(here, stored("mine", canary))
		if !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), what) {
			t.Errorf("a file that is %s: %v", what, err)
		}
	}
	if _, err := os.Stat(e.vault().Identity()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a key: %v", err)
	}
	must(t, os.WriteFile(words, []byte(strings.Repeat("a", store.MaxSmall)), 0o600))
	must(t, e.SetSecret(here, stored("mine", canary)))
}

// TestCorruptedVault checks that a corrupted vault is refused and stays as it is, and that leases
// can be revoked meanwhile.
func TestCorruptedVault(t *testing.T) {
	e := newDesk(t)
	must(t, e.SetSecret(here, stored("mine", canary)))
	sb, l := lent(t, e, "mine")
	doc := filepath.Join(e.Store.Secrets(), "vault.json")
	whole, err := os.ReadFile(doc)
	must(t, err)
	torn := whole[:len(whole)-20]
	must(t, os.WriteFile(doc, torn, 0o600))
	for what, do := range map[string]func() error{
		"set":  func() error { return e.SetSecret(here, stored("mine", canary)) },
		"rm":   func() error { return e.RemoveSecret(here, "mine") },
		"ls":   func() error { _, err := e.Secrets(); return err },
		"lend": func() error { _, err := e.Lend(here, sb, "mine", vault.Terms{}); return err },
	} {
		if err := do(); err == nil || !strings.Contains(spec.Hint(err), doc) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if loans := e.ForStart(here, sb).Loans; len(loans) != 0 {
		t.Errorf("lent are %+v", loans)
	}
	gone, err := e.Revoke(here, nil, func(*spec.Lease) bool { return true })
	if err != nil || len(gone) != 1 || gone[0].ID != l.ID {
		t.Errorf("revoked: %+v, %v", gone, err)
	}
	if now, err := os.ReadFile(doc); err != nil || string(now) != string(torn) {
		t.Errorf("the document was changed: %v", err)
	}

	// The same for its parts: a value, and the key.
	var d vault.Document
	must(t, json.Unmarshal(whole, &d))
	d.Secrets[0].Sealed = strings.Replace(d.Secrets[0].Sealed, "YWdl", "YWdm", 1)
	must(t, store.WriteJSON(doc, d))
	if v, err := e.readValue(&d, "mine"); err == nil || v != nil || !strings.Contains(spec.Hint(err), "set mine") {
		t.Errorf("a corrupted value: %v", err)
	}
	must(t, os.WriteFile(doc, whole, 0o600))
	must(t, os.Remove(e.vault().Identity()))
	must(t, json.Unmarshal(whole, &d))
	if _, err := e.readValue(&d, "mine"); err == nil || !strings.Contains(err.Error(), "key of the secrets is gone") {
		t.Errorf("without the key: %v", err)
	}
}

func TestReadOnlyVault(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root writes where it may not")
	}
	e := newDesk(t)
	must(t, os.Chmod(e.Store.Path(), 0o500))
	t.Cleanup(func() { _ = os.Chmod(e.Store.Path(), 0o700) })
	if err := e.SetSecret(here, stored("mine", canary)); !errors.Is(err, os.ErrPermission) {
		t.Errorf("%v", err)
	}
	if list, err := e.Secrets(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestLeaseClash(t *testing.T) {
	e := newDesk(t)
	must(t, e.SetSecret(here, stored("mine", canary)))
	sb, l := lent(t, e, "mine")
	if _, err := e.Lend(here, sb, "mine", vault.Terms{Hosts: []string{"b.example.com"}}); !errors.Is(err, spec.ErrConflict) || !strings.Contains(spec.Hint(err), l.ID) {
		t.Errorf("two leases with one variable: %v", err)
	}
	if _, err := e.Lend(here, sb, "mine", vault.Terms{Hosts: []string{"b.example.com"}, Env: []string{"OTHER"}}); err != nil {
		t.Error(err)
	}
}

// TestSetWhileLending checks that a value that is replaced between its reading and its lending is
// not lent.
func TestSetWhileLending(t *testing.T) {
	e := newDesk(t)
	words := filepath.Join(t.TempDir(), "words")
	must(t, os.WriteFile(words, []byte("open sesame"), 0o600))
	t.Setenv(passphraseVar, words)
	must(t, e.SetSecret(here, stored("mine", canary)))
	must(t, os.Unsetenv(passphraseVar))
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	told := e.run(sb)
	asked := 0
	e.Passphrase = func(bool) ([]byte, error) {
		if asked++; asked == 1 { // the old value is being read; to set one needs no passphrase
			must(t, e.SetSecret(here, stored("mine", canary+"-new")))
		}
		return []byte("open sesame"), nil
	}
	_, err := e.Lend(here, sb, "mine", vault.Terms{Hosts: []string{"api.example.com"}})
	must(t, err)
	if c := next(t, told); len(c.Put) != 1 || string(c.Put[0].Value) != canary+"-new" {
		t.Errorf("the sandbox has the old value: %+v", c)
	}
}

// TestLendWhileSetting checks that a lease that is made while a secret gets another source ends up
// with the new value.
func TestLendWhileSetting(t *testing.T) {
	e := newDesk(t)
	dir := t.TempDir()
	file := func(value string) NewSecret {
		path := filepath.Join(dir, value)
		must(t, os.WriteFile(path, []byte(value), 0o600))
		return NewSecret{Name: "mine", Source: vault.Source{Kind: vault.SourceFile, Path: path}}
	}
	before, after := file(canary), file(canary+"-new")
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	told := e.run(sb)
	for range 20 {
		must(t, e.SetSecret(here, before))
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := e.SetSecret(here, after); err != nil {
				t.Error(err)
			}
		})
		l, err := e.Lend(here, sb, "mine", vault.Terms{Hosts: []string{"api.example.com"}})
		must(t, err)
		wg.Wait()
		last := next(t, told)
		for len(told) > 0 {
			last = next(t, told)
		}
		if !slices.Equal(last.Keep, []string{l.ID}) || len(last.Put) != 1 || string(last.Put[0].Value) != canary+"-new" {
			t.Fatalf("at last the sandbox was told %+v", last)
		}
		_, err = e.Revoke(here, nil, func(*spec.Lease) bool { return true })
		must(t, err)
		next(t, told)
	}
}

func TestSecretEvents(t *testing.T) {
	e := newDesk(t)
	must(t, e.SetSecret(here, stored("mine", canary)))
	sb, _ := lent(t, e, "mine")
	must(t, os.WriteFile(e.Store.Sandbox(sb.ID).Log("network.jsonl"), []byte(
		`{"time":"2026-01-01T00:00:00Z","event":"flow","sandbox":"x"}`+"\n"+
			`{"time":"2099-01-01T00:00:00Z","event":"secret","sandbox":"x","secret":"mine"}`+"\n"+
			`{"time":"2099-01-02T00:00:00Z","event":"request","sandbox":"x","verdict":"deny","secret":"mine","reason":"so"}`+"\n"), 0o600))
	_, err := e.Revoke(here, nil, func(*spec.Lease) bool { return true })
	must(t, err)
	events, err := e.Events()
	must(t, err)
	var kinds []string
	for _, ev := range events {
		kinds = append(kinds, ev.Kind)
	}
	if want := []string{noteSet, noteLease, noteRevoke, spec.NetworkSecret, spec.NetworkRequest}; !slices.Equal(kinds, want) {
		t.Errorf("%q, want %q", kinds, want)
	}
}
