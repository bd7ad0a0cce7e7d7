package sealer

import (
	"bufio"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/bothy-dev/bothy/internal/vault"
)

// fakeKeyring plays the Secret Service, with one collection. If it is locked, it asks a question before
// it opens.
type fakeKeyring struct {
	bus *dbus.Conn

	mu      sync.Mutex
	locked  bool
	dismiss bool // the user's answer
	asked   int
	items   map[dbus.ObjectPath]fakeItem
}

type fakeItem struct {
	attributes map[string]string
	secret     secret
}

const collectionPath = servicePath + "/collection/login"

// needKeyring starts a private bus with a keyring on it.
func needKeyring(t *testing.T) *fakeKeyring {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("no dbus-daemon here:", err)
	}
	at := "unix:path=" + filepath.Join(t.TempDir(), "bus")
	cmd := exec.Command(program, "--session", "--nofork", "--nopidfile", "--address="+at, "--print-address")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", strings.TrimSpace(line))
	f := &fakeKeyring{items: map[dbus.ObjectPath]fakeItem{}}
	if f.bus, err = dbus.Connect(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.bus.Close() })
	_, err = f.bus.RequestName(serviceName, dbus.NameFlagDoNotQueue)
	if err = errors.Join(err,
		f.bus.Export(fakeService{f}, servicePath, iface+"Service"),
		f.bus.Export(fakeCollection{f}, collectionPath, iface+"Collection"),
		f.bus.Export(fakePrompt{f}, servicePath+"/prompt", iface+"Prompt")); err != nil {
		t.Fatal(err)
	}
	return f
}

type fakeService struct{ f *fakeKeyring }

func (s fakeService) OpenSession(string, dbus.Variant) (dbus.Variant, dbus.ObjectPath, *dbus.Error) {
	return dbus.MakeVariant(""), servicePath + "/session/1", nil
}

func (s fakeService) SearchItems(want map[string]string) (open, locked []dbus.ObjectPath, _ *dbus.Error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	open, locked = []dbus.ObjectPath{}, []dbus.ObjectPath{}
	for path, i := range s.f.items {
		ok := true
		for k, v := range want {
			ok = ok && i.attributes[k] == v
		}
		if ok && s.f.locked {
			locked = append(locked, path)
		} else if ok {
			open = append(open, path)
		}
	}
	return open, locked, nil
}

func (s fakeService) Unlock(paths []dbus.ObjectPath) ([]dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.f.locked {
		return []dbus.ObjectPath{}, servicePath + "/prompt", nil
	}
	return paths, none, nil
}

func (s fakeService) ReadAlias(string) (dbus.ObjectPath, *dbus.Error) { return collectionPath, nil }

type fakePrompt struct{ f *fakeKeyring }

func (p fakePrompt) Prompt(string) *dbus.Error {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.f.asked++
	p.f.locked = p.f.dismiss
	_ = p.f.bus.Emit(servicePath+"/prompt", iface+"Prompt.Completed", p.f.dismiss, dbus.MakeVariant(""))
	return nil
}

type fakeCollection struct{ f *fakeKeyring }

func (c fakeCollection) CreateItem(properties map[string]dbus.Variant, s secret, _ bool) (dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.f.locked {
		return none, none, dbus.NewError(iface+"Error.IsLocked", nil)
	}
	attributes, _ := properties[iface+"Item.Attributes"].Value().(map[string]string)
	return c.f.add(attributes, s), none, nil
}

// set changes the behaviour of the user and the keyring from now on.
func (f *fakeKeyring) set(locked, dismiss bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locked, f.dismiss = locked, dismiss
}

// counts returns the number of items, and of questions so far.
func (f *fakeKeyring) counts() (items, asked int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.items), f.asked
}

// add is called with the lock.
func (f *fakeKeyring) add(attributes map[string]string, s secret) dbus.ObjectPath {
	path := collectionPath + dbus.ObjectPath("/"+string(rune('a'+len(f.items))))
	f.items[path] = fakeItem{attributes, s}
	_ = f.bus.Export(fakeItemObject{f, path}, path, iface+"Item")
	return path
}

type fakeItemObject struct {
	f    *fakeKeyring
	path dbus.ObjectPath
}

func (i fakeItemObject) GetSecret(session dbus.ObjectPath) (secret, *dbus.Error) {
	i.f.mu.Lock()
	defer i.f.mu.Unlock()
	s := i.f.items[i.path].secret
	s.Session = session
	return s, nil
}

func (i fakeItemObject) Delete() (dbus.ObjectPath, *dbus.Error) {
	i.f.mu.Lock()
	defer i.f.mu.Unlock()
	delete(i.f.items, i.path)
	return none, nil
}

func TestKeyInKeyring(t *testing.T) {
	f := needKeyring(t)
	f.set(true, false)
	key := good(t, vault.Order{Op: vault.OpMake})
	if items, asked := f.counts(); key.Guard != vault.GuardKeyring || key.Identity != "" || items != 1 || asked != 1 {
		t.Fatalf("%+v; %d items, %d questions", key, items, asked)
	}
	open := vault.Order{
		Op: vault.OpOpen, Guard: key.Guard, Recipient: key.Recipient,
		Items: []vault.Item{{Name: "a", Sealed: sealed(t, key.Recipient)}},
	}
	if a := good(t, open); string(a.Items[0].Value) != canary {
		t.Errorf("%+v", a.Items[0].Error)
	}
	f.set(true, true)
	if a := good(t, open); a.Items[0].Error == nil || a.Items[0].Error.Class != "denied" || a.Items[0].Error.Hint == "" {
		t.Errorf("from a keyring that stays locked: %+v", a.Items[0])
	}
	f.set(false, false)
	good(t, vault.Order{Op: vault.OpForget, Recipient: key.Recipient})
	if items, _ := f.counts(); items != 0 {
		t.Error("the key was not forgotten")
	}
	if a := good(t, open); a.Items[0].Error == nil {
		t.Error("opened without a key")
	}
}

// TestKeyringStaysLocked checks that the key goes into the file if the user does not unlock the
// keyring.
func TestKeyringStaysLocked(t *testing.T) {
	f := needKeyring(t)
	f.set(true, true)
	key := good(t, vault.Order{Op: vault.OpMake})
	if items, _ := f.counts(); key.Guard != vault.GuardFile || items != 0 {
		t.Errorf("%+v, %d items", key, items)
	}
}

// TestKeyringQuiet checks that a quiet order uses only a keyring that needs no prompt.
func TestKeyringQuiet(t *testing.T) {
	f := needKeyring(t)
	f.set(true, false)
	if key := good(t, vault.Order{Op: vault.OpMake, Quiet: true}); key.Guard != vault.GuardFile {
		t.Errorf("%+v", key)
	}
	if items, asked := f.counts(); items != 0 || asked != 0 {
		t.Errorf("%d items, %d questions", items, asked)
	}
	f.set(false, false)
	if key := good(t, vault.Order{Op: vault.OpMake, Quiet: true}); key.Guard != vault.GuardKeyring {
		t.Errorf("%+v", key)
	}
}

func TestItemsOfKeyring(t *testing.T) {
	f := needKeyring(t)
	f.mu.Lock()
	f.add(map[string]string{"service": "db", "username": "me"}, secret{Value: []byte(canary)})
	f.add(map[string]string{"service": "db", "username": "you"}, secret{Value: []byte("another one")})
	f.mu.Unlock()
	for _, tt := range []struct {
		attributes map[string]string
		want       string
		class      string
	}{
		{map[string]string{"service": "db", "username": "me"}, canary, ""},
		{map[string]string{"service": "db"}, "", "conflict"},
		{map[string]string{"service": "web"}, "", "not_found"},
	} {
		i := good(t, vault.Order{Op: vault.OpOpen, Items: []vault.Item{{Name: "a", Attributes: tt.attributes}}}).Items[0]
		if string(i.Value) != tt.want || i.Error != nil && i.Error.Class != tt.class {
			t.Errorf("%v: %+v", tt.attributes, i)
		}
	}
}

func TestAddress(t *testing.T) {
	for in, ok := range map[string]bool{
		"unix:path=/run/user/1/bus": true, "unix:abstract=x;unix:path=/y": true,
		"autolaunch:": false, "unixexec:path=/bin/sh": false, "tcp:host=x": false, "unix:path=/x;tcp:host=y": false, "": false,
	} {
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", in)
		if got, err := address(); (err == nil) != ok {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}
