// Package apitoken keeps the tokens of the API: it makes them, and says what the holder of one may do. The
// file holds a hash of each token, so a person who reads the file has no token.
package apitoken

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Scope is a kind of request that a token allows.
type Scope string

// The scopes. None includes another.
const (
	Read    Scope = "read"    // look at sandboxes, runs, files and logs
	Exec    Scope = "exec"    // run commands, and read and write files inside
	Approve Scope = "approve" // answer for a person: apply changes, allow hosts, answer runs
	Admin   Scope = "admin"   // create, change and remove sandboxes
)

// Scopes are all scopes.
var Scopes = []Scope{Read, Exec, Approve, Admin}

// Token describes a token, without its text.
type Token struct {
	ID        string     `json:"id"`
	Name      string     `json:"name,omitempty"` // for the person who made it
	Scopes    []Scope    `json:"scopes"`
	Sandboxes []string   `json:"sandboxes"` // the only sandboxes that it is for; empty: all
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"` // null: never
	Expired   bool       `json:"expired"`
}

// Allows reports whether the token has a scope.
func (t *Token) Allows(s Scope) bool { return slices.Contains(t.Scopes, s) }

// IsFor reports whether the token is for a sandbox with this name.
func (t *Token) IsFor(sandbox string) bool {
	return len(t.Sandboxes) == 0 || slices.Contains(t.Sandboxes, sandbox)
}

// Wish describes a token to make.
type Wish struct {
	Name      string
	Scopes    []Scope
	Sandboxes []string
	Lasts     time.Duration // 0: for ever
}

// Book holds the tokens of a state directory.
type Book struct {
	dir string
	now func() time.Time
}

// Open returns the tokens of a state directory.
func Open(s *store.Store) *Book { return &Book{dir: s.API(), now: time.Now} }

// MaxTokens is the largest number of tokens.
const MaxTokens = 1000

// secretBytes is the number of random bytes of a token.
const secretBytes = 20

// Prefix starts the text of each token, so that a person and a scanner for secrets recognise one.
const Prefix = "bothy_"

// form matches the text of a token, with its underscore as it is or as in a URL.
var form = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[a-z0-9](_|%5[fF])[0-9a-f]{40}`) })

// Contains reports whether a text contains the text of a token.
func Contains(text string) bool { return form().MatchString(text) }

// kept is a token in the file.
type kept struct {
	Token
	Hash string `json:"hash"` // SHA-256 of the text after its prefix, in hex
}

type document struct {
	Version int    `json:"version"`
	Tokens  []kept `json:"tokens"`
}

// ErrUnknown says that a text is not a token, or that the token was removed or has expired.
var ErrUnknown = errors.New("the token is unknown, or has expired")

// Create makes a token. It returns the text, which is kept nowhere.
func (b *Book) Create(w Wish) (text string, t Token, err error) {
	if err := checkWish(w); err != nil {
		return "", t, err
	}
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // it never fails
	secret := hex.EncodeToString(random)
	t = Token{
		ID: store.NewID(), Name: w.Name, Scopes: slices.Compact(slices.Sorted(slices.Values(w.Scopes))),
		Sandboxes: append([]string{}, w.Sandboxes...), CreatedAt: b.now().UTC().Truncate(time.Second),
	}
	if w.Lasts > 0 {
		at := b.now().Add(w.Lasts).UTC().Truncate(time.Second)
		t.ExpiresAt = &at
	}
	err = b.change(func(d *document) error {
		if len(d.Tokens) >= MaxTokens {
			return spec.Errorf(spec.ErrConflict, "there are %d tokens already", MaxTokens).WithHint("remove some: bothy token rm ID")
		}
		d.Tokens = append(d.Tokens, kept{t, hashOf(secret)})
		return nil
	})
	return Prefix + secret, t, err
}

func checkWish(w Wish) error {
	if len(w.Scopes) == 0 {
		return spec.Errorf(spec.ErrUsage, "a token needs a scope").WithHint("scopes are read, exec, approve and admin")
	}
	for _, s := range w.Scopes {
		if !slices.Contains(Scopes, s) {
			return spec.Errorf(spec.ErrUsage, "%q is not a scope", string(s)).WithHint("scopes are read, exec, approve and admin")
		}
	}
	for _, name := range w.Sandboxes {
		if err := spec.CheckName(name); err != nil {
			return err
		}
	}
	if w.Lasts < 0 {
		return spec.Errorf(spec.ErrUsage, "a token cannot last %s", w.Lasts)
	}
	if len(w.Name) > 200 || strings.ContainsFunc(w.Name, func(r rune) bool { return r < ' ' }) {
		return spec.Errorf(spec.ErrUsage, "the name of a token is one line of at most 200 bytes")
	}
	return nil
}

// List returns all tokens, oldest first, including expired ones.
func (b *Book) List() ([]Token, error) {
	d, err := b.readTokens()
	list := make([]Token, 0, len(d.Tokens))
	for _, k := range d.Tokens {
		k.Expired = b.hasExpired(&k.Token)
		list = append(list, k.Token)
	}
	return list, err
}

// Remove removes the token with an ID. From then on no request with it is answered.
func (b *Book) Remove(id string) error {
	return b.change(func(d *document) error {
		before := len(d.Tokens)
		d.Tokens = slices.DeleteFunc(d.Tokens, func(k kept) bool { return k.ID == id })
		if len(d.Tokens) == before {
			return spec.Errorf(spec.ErrNotFound, "no token %q", id).WithHint("list tokens: bothy token ls")
		}
		return nil
	})
}

// Check returns the token with a text. The error is [ErrUnknown] if no such token is valid now.
func (b *Book) Check(text string) (*Token, error) {
	_, secret, ok := strings.Cut(text, "_")
	if !ok {
		return nil, ErrUnknown
	}
	d, err := b.readTokens()
	if err != nil {
		return nil, err
	}
	hash := []byte(hashOf(secret))
	var found *Token
	for _, k := range d.Tokens { // all of them, so that the time says nothing about the place
		if subtle.ConstantTimeCompare(hash, []byte(k.Hash)) == 1 && !b.hasExpired(&k.Token) {
			found = &k.Token
		}
	}
	if found == nil {
		return nil, ErrUnknown
	}
	return found, nil
}

// Holds reports whether a token that was checked before is still valid. An error to read the file counts
// as no.
func (b *Book) Holds(t *Token) bool {
	d, err := b.readTokens()
	return err == nil && !b.hasExpired(t) && slices.ContainsFunc(d.Tokens, func(k kept) bool { return k.ID == t.ID })
}

func (b *Book) hasExpired(t *Token) bool { return t.ExpiresAt != nil && !b.now().Before(*t.ExpiresAt) }

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func (b *Book) filePath() string { return filepath.Join(b.dir, "tokens.json") }

// readTokens reads the file. A missing one holds no token.
func (b *Book) readTokens() (d document, err error) {
	info, err := os.Lstat(b.filePath())
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = spec.Errorf(spec.ErrDenied, "%s is open to other users (mode %#o)", b.filePath(), info.Mode().Perm()).
			WithHint("chmod 600 %s, and make the tokens anew if others may have written there", b.filePath())
	}
	if err == nil {
		err = store.ReadJSON(b.filePath(), &d)
	}
	if err != nil {
		return d, fmt.Errorf("read the tokens: %w", err)
	}
	return d, nil
}

// change changes the file under its lock.
func (b *Book) change(edit func(*document) error) error {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	lock, err := store.WaitLock(filepath.Join(b.dir, "tokens.lock"))
	if err != nil {
		return err
	}
	defer lock.Unlock()
	d, err := b.readTokens()
	if err != nil {
		return err
	}
	if err := edit(&d); err != nil {
		return err
	}
	d.Version = spec.Version
	return store.WriteJSON(b.filePath(), d)
}
