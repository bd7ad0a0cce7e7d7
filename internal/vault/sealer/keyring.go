package sealer

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// The keyring is any program that offers the Secret Service on the session's bus: GNOME's, KDE's,
// KeePassXC.
const (
	serviceName = "org.freedesktop.secrets"
	servicePath = dbus.ObjectPath("/org/freedesktop/secrets")
	iface       = "org.freedesktop.Secret."
	none        = dbus.ObjectPath("/") // the path that means none
)

// keyring is a conversation with that program.
type keyring struct {
	ctx     context.Context
	bus     *dbus.Conn
	session dbus.ObjectPath
	quiet   bool // do not prompt the user
}

// secret is a value on the bus, which is a socket of the user.
type secret struct {
	Session     dbus.ObjectPath
	Parameters  []byte
	Value       []byte
	ContentType string
}

// address returns the address of the session's bus. It never starts one: a host without a desktop
// has no keyring.
func address() (string, error) {
	list := os.Getenv("DBUS_SESSION_BUS_ADDRESS")
	if dir := os.Getenv("XDG_RUNTIME_DIR"); list == "" && filepath.IsAbs(dir) {
		if _, err := os.Stat(filepath.Join(dir, "bus")); err == nil {
			list = "unix:path=" + dbus.EscapeBusAddressValue(filepath.Join(dir, "bus"))
		}
	}
	if list == "" {
		return "", errors.New("no session bus exists")
	}
	for a := range strings.SplitSeq(list, ";") {
		if !strings.HasPrefix(a, "unix:") {
			return "", errors.New("the session bus is not a unix socket")
		}
	}
	return list, nil
}

// openKeyring opens a session. Its values cross the bus in clear: a process that can listen there
// can ask for them, too.
func openKeyring(ctx context.Context) (*keyring, error) {
	k := &keyring{ctx: ctx}
	at, err := address()
	if err == nil {
		k.bus, err = dbus.Connect(at, dbus.WithContext(ctx))
	}
	if err == nil {
		var output dbus.Variant
		err = k.callMethod(servicePath, "Service.OpenSession", []any{"plain", dbus.MakeVariant("")}, &output, &k.session)
	}
	if err != nil {
		k.close()
		return nil, spec.Errorf(nil, "no desktop keyring answers: %w", err)
	}
	return k, nil
}

func (k *keyring) close() {
	if k.bus != nil {
		_ = k.bus.Close()
	}
}

func (k *keyring) callMethod(at dbus.ObjectPath, method string, args []any, results ...any) error {
	c := k.bus.Object(serviceName, at).CallWithContext(k.ctx, iface+method, 0, args...)
	if c.Err != nil {
		return c.Err
	}
	return c.Store(results...)
}

// prompt lets the keyring ask the user, if it wants to.
func (k *keyring) prompt(at dbus.ObjectPath) error {
	if at == none || at == "" {
		return nil
	}
	if k.quiet {
		return errors.New("the keyring is locked, and must not ask the user")
	}
	done := make(chan *dbus.Signal, 8)
	k.bus.Signal(done)
	defer k.bus.RemoveSignal(done)
	if err := k.bus.AddMatchSignal(dbus.WithMatchObjectPath(at), dbus.WithMatchInterface(iface+"Prompt")); err != nil {
		return err
	}
	if err := k.callMethod(at, "Prompt.Prompt", []any{""}); err != nil {
		return err
	}
	for {
		select {
		case <-k.ctx.Done():
			return errors.New("the user did not answer the keyring's question")
		case s, ok := <-done:
			switch {
			case !ok:
				return errors.New("the keyring went away")
			case s.Path != at || s.Name != iface+"Prompt.Completed" || len(s.Body) == 0:
			case s.Body[0] == false:
				return nil
			default:
				return errors.New("the keyring stays locked")
			}
		}
	}
}

// findItems returns the items with attributes, unlocked.
func (k *keyring) findItems(attributes map[string]string) ([]dbus.ObjectPath, error) {
	var open, locked []dbus.ObjectPath
	if err := k.callMethod(servicePath, "Service.SearchItems", []any{attributes}, &open, &locked); err != nil {
		return nil, err
	}
	if len(open) > 0 || len(locked) == 0 {
		return open, nil
	}
	return locked, k.unlock(locked)
}

func (k *keyring) unlock(paths []dbus.ObjectPath) error {
	var open []dbus.ObjectPath
	var question dbus.ObjectPath
	if err := k.callMethod(servicePath, "Service.Unlock", []any{paths}, &open, &question); err != nil {
		return err
	}
	return k.prompt(question)
}

// lookUp reads the one item with these attributes.
func lookUp(ctx context.Context, attributes map[string]string) ([]byte, error) {
	k, err := openKeyring(ctx)
	if err != nil {
		return nil, err
	}
	defer k.close()
	items, err := k.findItems(attributes)
	switch {
	case err != nil:
		return nil, err
	case len(items) == 0:
		return nil, spec.Errorf(spec.ErrNotFound, "the keyring has no item with %s", describe(attributes))
	case len(items) > 1:
		return nil, spec.Errorf(spec.ErrConflict, "the keyring has %d items with %s", len(items), describe(attributes)).
			WithHint("name more attributes")
	}
	var s secret
	if err := k.callMethod(items[0], "Item.GetSecret", []any{k.session}, &s); err != nil {
		return nil, err
	}
	return s.Value, nil
}

func describe(attributes map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		list = append(list, name+"="+attributes[name])
	}
	return strings.Join(list, " ")
}

func keyAttributes(recipient string) map[string]string {
	return map[string]string{"application": "bothy", "recipient": recipient}
}

// keepKey puts the key into the default collection.
func keepKey(ctx context.Context, quiet bool, recipient, key string) error {
	k, err := openKeyring(ctx)
	if err != nil {
		return err
	}
	defer k.close()
	k.quiet = quiet
	var collection dbus.ObjectPath
	if err := k.callMethod(servicePath, "Service.ReadAlias", []any{"default"}, &collection); err != nil {
		return err
	}
	if collection == none {
		return errors.New("the keyring has no default collection")
	}
	if err := k.unlock([]dbus.ObjectPath{collection}); err != nil {
		return err
	}
	properties := map[string]dbus.Variant{
		iface + "Item.Label":      dbus.MakeVariant("Bothy: key of the secrets"),
		iface + "Item.Attributes": dbus.MakeVariant(keyAttributes(recipient)),
	}
	value := secret{Session: k.session, Parameters: []byte{}, Value: []byte(key), ContentType: "text/plain"}
	var item, question dbus.ObjectPath
	if err := k.callMethod(collection, "Collection.CreateItem", []any{properties, value, true}, &item, &question); err != nil {
		return err
	}
	if err := k.prompt(question); err != nil {
		return err
	}
	back, err := lookUp(ctx, keyAttributes(recipient))
	if err == nil && string(back) != key {
		err = errors.New("the keyring returned another value than it was given")
	}
	return err
}

func keptKey(ctx context.Context, recipient string) (string, error) {
	key, err := lookUp(ctx, keyAttributes(recipient))
	if err != nil {
		return "", &spec.Error{Class: spec.ErrDenied, Op: "get the key of the secrets from the keyring", Err: err, Hint: "unlock the desktop's keyring"}
	}
	return string(key), nil
}

func forget(ctx context.Context, o vault.Order) error {
	k, err := openKeyring(ctx)
	if err != nil {
		return err
	}
	defer k.close()
	items, err := k.findItems(keyAttributes(o.Recipient))
	for _, item := range items {
		var question dbus.ObjectPath
		err = errors.Join(err, k.callMethod(item, "Item.Delete", nil, &question))
		if err == nil {
			err = k.prompt(question)
		}
	}
	return err
}
