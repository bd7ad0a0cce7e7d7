package vault

import (
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Argv0 is the name under which the binary seals and opens values. It gets one
// Order on its standard input and writes one Answer to its standard output,
// both pipes of whoever started it.
const Argv0 = "bothy-vault"

// Operations.
const (
	OpMake   = "make"   // a key: Answer.Guard, Recipient, and Identity for the file
	OpSeal   = "seal"   // Items with a Value get their Sealed
	OpOpen   = "open"   // Items with Sealed, or with Attributes, get their Value
	OpForget = "forget" // takes the key out of the keyring
)

// Order is what to do.
type Order struct {
	Op string `json:"op"`
	// Guard keeps the key. For OpMake it may be empty: the best there is.
	Guard     Guard  `json:"guard,omitempty"`
	Recipient string `json:"recipient,omitempty"`
	// Quiet has the keyring ask nobody anything: if it would, the key is kept elsewhere.
	Quiet bool `json:"quiet,omitempty"`
	// Identity is what stands in the file, with GuardFile and GuardPassphrase.
	Identity   string     `json:"identity,omitempty"`
	Passphrase wire.Value `json:"passphrase,omitempty"`
	Items      []Item     `json:"items,omitempty"`
}

// Item is one value.
type Item struct {
	Name       string            `json:"name"` // of the secret
	Sealed     string            `json:"sealed,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"` // of an item of the keyring
	Value      wire.Value        `json:"value,omitempty"`
	Again      string            `json:"again,omitempty"` // what to do if Sealed is corrupted
	Error      *spec.WireError   `json:"error,omitempty"` // why there is no value
}

// Answer is what came of it.
type Answer struct {
	Error     *spec.WireError `json:"error,omitempty"`
	Guard     Guard           `json:"guard,omitempty"`
	Recipient string          `json:"recipient,omitempty"`
	Identity  string          `json:"identity,omitempty"`
	Items     []Item          `json:"items,omitempty"`
}
