package wire

import (
	"fmt"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Loan is a lease with the lent value. It goes to the keeper over a socket and is kept in memory only. A
// loan without a value is not lent any more; the gateway still recognises its placeholder.
type Loan struct {
	spec.Lease
	Value Value `json:"value"`
	// Taken marks a loan that was taken back: its value is still masked in incoming data and its
	// placeholder is still recognised, but the gateway exchanges nothing.
	Taken bool `json:"taken,omitempty"`
	// Masked are more values to mask in incoming data, like Value, but not lent: earlier values,
	// and the token that renews the value.
	Masked []Value `json:"masked,omitempty"`
	// Login is the source of the value, if it is a login of the host that the keeper renews.
	Login *Login `json:"login,omitempty"`
}

// Login is a login of the host.
type Login struct {
	Path    string          `json:"path"`
	How     spec.AgentLogin `json:"how"`
	Inside  bool            `json:"inside,omitempty"` // made in the sandbox, and useless elsewhere
	Seal    *Seal           `json:"seal,omitempty"`   // of a login made inside
	Expires time.Time       `json:"expires,omitzero"` // when the value ends, if that is known
	Due     time.Time       `json:"due,omitzero"`     // when it must be renewed
}

// Seal is the encryption key of the file of a login made inside.
type Seal struct {
	Key Value `json:"key"`
	// Sealed is the key, sealed like secrets. The file contains it for its next reader.
	Sealed string `json:"sealed"`
}

// LoanChange is a change of the secrets lent to a running sandbox.
type LoanChange struct {
	Put  []Loan   `json:"put,omitempty"`  // new loans, or replacements of loans with the same ID
	Keep []string `json:"keep,omitempty"` // the IDs that stay lent: all others lose their value
}

// Value is a secret. It cannot be printed.
type Value []byte

// Format keeps the value out of every message.
func (Value) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[secret]")) }
