package sealer

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
)

func TestMain(m *testing.M) {
	// The tests must not use the desktop of the user who runs them.
	_ = os.Unsetenv("DBUS_SESSION_BUS_ADDRESS")
	_ = os.Unsetenv("XDG_RUNTIME_DIR")
	os.Exit(m.Run())
}

const canary = "sk-canary-0123456789"

// order goes all the way that an order goes.
func order(t *testing.T, o vault.Order) vault.Answer {
	t.Helper()
	in, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := Main(bytes.NewReader(in), &out); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var a vault.Answer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		t.Fatalf("%v in %q", err, out.Bytes())
	}
	return a
}

func good(t *testing.T, o vault.Order) vault.Answer {
	t.Helper()
	a := order(t, o)
	if a.Error != nil {
		t.Fatalf("%s: %s", o.Op, a.Error.Message)
	}
	return a
}

func sealed(t *testing.T, recipient string) string {
	t.Helper()
	a := good(t, vault.Order{Op: vault.OpSeal, Recipient: recipient, Items: []vault.Item{{Name: "a", Value: wire.Value(canary)}}})
	if s := a.Items[0].Sealed; strings.Contains(s, canary) || a.Items[0].Value != nil {
		t.Fatalf("sealed is %q", s)
	}
	return a.Items[0].Sealed
}

func TestFile(t *testing.T) {
	key := good(t, vault.Order{Op: vault.OpMake})
	if key.Guard != vault.GuardFile || !strings.HasPrefix(key.Identity, "AGE-SECRET-KEY-1") {
		t.Fatalf("without a keyring and a passphrase the key is kept by %q", key.Guard)
	}
	s := sealed(t, key.Recipient)
	o := vault.Order{Op: vault.OpOpen, Guard: key.Guard, Recipient: key.Recipient, Identity: key.Identity, Items: []vault.Item{{Name: "a", Sealed: s}}}
	if a := good(t, o); string(a.Items[0].Value) != canary {
		t.Errorf("opened: %q", string(a.Items[0].Value))
	}

	// A value that cannot be opened does not block the others.
	o.Items = []vault.Item{{Name: "b", Sealed: s[:60] + "AAAA" + s[64:]}, {Name: "a", Sealed: s}, {Name: "k", Attributes: map[string]string{"x": "y"}}}
	a := good(t, o)
	if a.Items[0].Error == nil || a.Items[0].Value != nil || string(a.Items[1].Value) != canary {
		t.Errorf("%+v", a.Items)
	}
	if e := a.Items[2].Error; e == nil || !strings.Contains(e.Message, "keyring") {
		t.Errorf("without a keyring: %+v", e)
	}

	// A key that was left behind is used again.
	if again := good(t, vault.Order{Op: vault.OpMake, Identity: key.Identity}); again.Recipient != key.Recipient {
		t.Errorf("another key was made")
	}

	// Another key, or none.
	other := good(t, vault.Order{Op: vault.OpMake})
	for _, id := range []string{other.Identity, "", "AGE-SECRET-KEY-1" + strings.Repeat("Q", 58)} {
		o.Identity, o.Items = id, []vault.Item{{Name: "a", Sealed: s}}
		a := good(t, o)
		if a.Items[0].Error == nil || a.Items[0].Value != nil {
			t.Errorf("opened with %.20q", id)
		} else if id != "" && strings.Contains(a.Items[0].Error.Message, id[:30]) {
			t.Errorf("the key is repeated: %s", a.Items[0].Error.Message)
		}
	}
}

func TestPassphrase(t *testing.T) {
	racetest.Skip(t)
	key := good(t, vault.Order{Op: vault.OpMake, Passphrase: []byte("open sesame")})
	if key.Guard != vault.GuardPassphrase || strings.Contains(key.Identity, "AGE-SECRET-KEY") {
		t.Fatalf("kept by %s: %s", key.Guard, key.Identity)
	}
	s := sealed(t, key.Recipient)
	for _, tt := range []struct{ passphrase, want, class string }{
		{"open sesame", canary, ""},
		{"open barley", "", "denied"},
		{"", "", "denied"},
	} {
		a := good(t, vault.Order{
			Op: vault.OpOpen, Guard: key.Guard, Recipient: key.Recipient, Identity: key.Identity,
			Passphrase: []byte(tt.passphrase), Items: []vault.Item{{Name: "a", Sealed: s}},
		})
		i := a.Items[0]
		if string(i.Value) != tt.want || (i.Error == nil) != (tt.class == "") || i.Error != nil && i.Error.Class != tt.class {
			t.Errorf("with %q: %+v", tt.passphrase, i)
		}
	}
}

func TestNonsense(t *testing.T) {
	for _, in := range []string{"", "{", `"` + canary + `"`, `{"op":"` + canary + `!"}`, `{"op":"seal"}`, `{"op":"forget"}`} {
		var out bytes.Buffer
		Main(strings.NewReader(in), &out)
		var a vault.Answer
		if err := json.Unmarshal(out.Bytes(), &a); err != nil || a.Error == nil {
			t.Errorf("%q is answered with %q", in, out.Bytes())
		}
	}
}
