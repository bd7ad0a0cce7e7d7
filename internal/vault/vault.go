// Package vault keeps the metadata of secrets on the host: their names, the sources of their values,
// and the sandboxes they are lent to. If it stores a value itself, its document holds the sealed form.
// A value in plain text never reaches this package. A separate process seals and opens values (package
// seal); this package defines the messages to it.
//
// Everything is in one document, so that a name and its value cannot be separated. It is
// replaced as a whole under a lock.
package vault

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Vault is the directory of the secrets.
type Vault struct{ Dir string }

// Of returns the vault of a state directory.
func Of(st *store.Store) Vault { return Vault{Dir: st.Secrets()} }

// Names of its files.
func (v Vault) document() string { return filepath.Join(v.Dir, "vault.json") }
func (v Vault) lockPath() string { return filepath.Join(v.Dir, "lock") }

// Identity is the file with the key that opens sealed values, if the key is not
// in the desktop's keyring.
func (v Vault) Identity() string { return filepath.Join(v.Dir, "identity") }

// Log is the log of changes to secrets and leases.
func (v Vault) Log() string { return filepath.Join(v.Dir, "audit.jsonl") }

// Guard is the keeper of the key that opens sealed values.
type Guard string

// The guards.
const (
	GuardFile       Guard = "file"       // a file only its owner may read
	GuardPassphrase Guard = "passphrase" // the same, encrypted with a passphrase
	GuardKeyring    Guard = "keyring"    // the desktop's keyring
)

// Document is the whole state. Guard and Recipient are set with the first value that is sealed.
type Document struct {
	Version   int      `json:"version"`
	Guard     Guard    `json:"guard,omitempty"`
	Recipient string   `json:"recipient,omitempty"` // age's recipient for sealed values
	Secrets   []Secret `json:"secrets"`
}

// Secret is a named credential.
type Secret struct {
	Name      string    `json:"name"`
	Service   string    `json:"service,omitempty"`
	Source    Source    `json:"source"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// Revision changes whenever the secret is put, even if nothing else changes. A process that read a
	// value without the lock compares it to see whether the value is still current.
	Revision string `json:"revision,omitempty"`
	// Sealed is the value of SourceStored: a file as age writes it, armored.
	Sealed string `json:"sealed,omitempty"`
}

// Find returns the secret of a name.
func (d *Document) Find(name string) (*Secret, error) {
	if i := d.indexOf(name); i >= 0 {
		return &d.Secrets[i], nil
	}
	return nil, spec.Errorf(spec.ErrNotFound, "no secret named %q", name).WithHint("list secrets: bothy secret ls")
}

func (d *Document) indexOf(name string) int {
	return slices.IndexFunc(d.Secrets, func(s Secret) bool { return s.Name == name })
}

// Put adds a secret or replaces the one of that name.
func (d *Document) Put(s Secret) {
	s.Revision = store.NewID()
	if i := d.indexOf(s.Name); i >= 0 {
		d.Secrets[i] = s
		return
	}
	d.Secrets = append(d.Secrets, s)
	slices.SortFunc(d.Secrets, func(a, b Secret) int { return cmp.Compare(a.Name, b.Name) })
}

// Remove removes a secret.
func (d *Document) Remove(name string) {
	d.Secrets = slices.DeleteFunc(d.Secrets, func(s Secret) bool { return s.Name == name })
}

const maxDocument = 16 << 20

// Read returns the document. If it does not exist, the result has no secrets. A document
// that cannot be read is left as it is.
func (v Vault) Read() (*Document, error) {
	d := &Document{}
	err := readDocument(v.document(), d)
	if errors.Is(err, fs.ErrNotExist) {
		return &Document{Version: spec.Version, Secrets: []Secret{}}, nil
	}
	if errors.Is(err, spec.ErrNewer) {
		return nil, err
	}
	if err == nil {
		err = d.checkContent()
	}
	if err != nil {
		return nil, (&spec.Error{Op: "read the secrets", Err: err}).
			WithHint("%s is left as it is; bring back a copy of it, or move it away and set the secrets again", v.document())
	}
	return d, nil
}

// checkContent refuses a document that this package would not have written.
func (d *Document) checkContent() error {
	if d.Version < 1 {
		return errors.New("the document has no version")
	}
	for i, s := range d.Secrets {
		if err := CheckName(s.Name); err != nil {
			return err
		}
		if d.indexOf(s.Name) != i {
			return fmt.Errorf("%s is in it twice", s.Name)
		}
		if err := s.Source.checkSource(); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if (s.Source.Kind == SourceStored) != (s.Sealed != "") {
			return fmt.Errorf("%s: the value is missing, or one too many", s.Name)
		}
	}
	return nil
}

// readDocument reads one JSON document from a regular file of bounded size, and nothing after it.
func readDocument(path string, v any) error {
	data, err := store.ReadFile(path, 0, maxDocument)
	if err != nil {
		return err
	}
	if err := store.CheckVersion(path, data); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil || d.More() {
		return fmt.Errorf("%s is corrupted", path) // the cause may quote the document
	}
	return nil
}

// Change is a change in progress: its lock keeps other processes from making one until it ends.
type Change struct {
	*Document
	vault Vault
	held  *store.Lock
}

// Begin takes the lock and reads the document.
func (v Vault) Begin() (*Change, error) {
	c, err := v.BeginBlind()
	if err != nil {
		return nil, err
	}
	store.SweepTemp(v.Dir, 0) // no other process writes here: we hold the lock
	if c.Document, err = v.Read(); err != nil {
		c.End()
		return nil, err
	}
	return c, nil
}

// BeginBlind is Begin for callers that do not need the document: it may be corrupted.
func (v Vault) BeginBlind() (*Change, error) {
	return v.beginChange(store.WaitLock)
}

// beginChange begins a change; take acquires the lock.
func (v Vault) beginChange(take func(path string) (*store.Lock, error)) (*Change, error) {
	if err := os.MkdirAll(v.Dir, 0o700); err != nil {
		return nil, &spec.Error{Op: "open the secrets", Err: err}
	}
	held, err := take(v.lockPath())
	if err != nil {
		return nil, err
	}
	return &Change{vault: v, held: held}, nil
}

const lockPoll = 50 * time.Millisecond

// TryBegin is BeginBlind for callers that cannot wait while another process prompts the
// user. It fails when the context ends.
func (v Vault) TryBegin(ctx context.Context) (*Change, error) {
	for {
		c, err := v.beginChange(store.TryLock)
		if !errors.Is(err, store.ErrLocked) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, (&spec.Error{Op: "open the secrets", Err: fmt.Errorf("another bothy changes them and holds %s: %w", v.lockPath(), context.Cause(ctx))}).
				WithHint("see whether a bothy secret command waits for an answer, and try again")
		case <-time.After(lockPoll):
		}
	}
}

// Save writes the document.
func (c *Change) Save() error { return store.WriteJSON(c.vault.document(), c.Document) }

// Note writes an action into the log.
func (c *Change) Note(what string, fields any) error {
	l, err := audit.Open(c.vault.Log(), audit.Options{})
	if err != nil {
		return err
	}
	return errors.Join(l.Write(what, fields), l.Close())
}

// End releases the lock.
func (c *Change) End() { c.held.Unlock() }
