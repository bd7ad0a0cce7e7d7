package vault

import (
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Argv0 is the name under which the binary seals and opens values. It reads one Order from its standard
// input and writes one Answer to its standard output. Both are pipes of the process that started it.
const Argv0 = "bothy-vault"

// Operations.
const (
	OpMake   = "make"   // a key: Answer.Guard, Recipient, and Identity for the file
	OpSeal   = "seal"   // Items with a Value get their Sealed
	OpOpen   = "open"   // Items with Sealed, or with Attributes, get their Value
	OpForget = "forget" // removes the key from the keyring
)

// Order is a task for that process.
type Order struct {
	Op string `json:"op"`
	// Guard keeps the key. For OpMake it may be empty, which means the best available one.
	Guard     Guard  `json:"guard,omitempty"`
	Recipient string `json:"recipient,omitempty"`
	// Quiet keeps the keyring from prompting the user: if it would, another guard keeps the key.
	Quiet bool `json:"quiet,omitempty"`
	// Identity is the content of the identity file, with GuardFile and GuardPassphrase.
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
	Error      *spec.WireError   `json:"error,omitempty"` // why the value is missing
}

// Answer is the result of an order.
type Answer struct {
	Error     *spec.WireError `json:"error,omitempty"`
	Guard     Guard           `json:"guard,omitempty"`
	Recipient string          `json:"recipient,omitempty"`
	Identity  string          `json:"identity,omitempty"`
	Items     []Item          `json:"items,omitempty"`
}
