package wire

import (
	"fmt"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Loan is a lease with the value that is lent. It goes to the keeper over a
// socket and lives in memory only. One without a value is lent no more: its
// placeholder is still known for what it was.
type Loan struct {
	spec.Lease
	Value Value `json:"value"`
	// Taken tells a loan that was taken back: its value is still masked in what
	// comes from outside, and its placeholder known, but nothing is exchanged.
	Taken bool `json:"taken,omitempty"`
	// Masked are values that are kept from coming in like Value, and not lent:
	// those it had before, and what renews it.
	Masked []Value `json:"masked,omitempty"`
	// Login is where the value is from, if it is a login of the host, which the
	// keeper renews.
	Login *Login `json:"login,omitempty"`
}

// Login is a login of the host.
type Login struct {
	Path    string          `json:"path"`
	How     spec.AgentLogin `json:"how"`
	Inside  bool            `json:"inside,omitempty"` // it was made in the sandbox, and is of no use elsewhere
	Seal    *Seal           `json:"seal,omitempty"`   // of one that was made inside
	Expires time.Time       `json:"expires,omitzero"` // when the value ends, if somebody says so
	Due     time.Time       `json:"due,omitzero"`     // when it has to be renewed
}

// Seal is what the file of a login that was made inside is encrypted with.
type Seal struct {
	Key Value `json:"key"`
	// Sealed is the key, sealed as secrets are: it lies in the file, for who reads that next.
	Sealed string `json:"sealed"`
}

// LoanChange is what changes about the secrets lent to a sandbox that runs.
type LoanChange struct {
	Put  []Loan   `json:"put,omitempty"`  // new, or instead of the one with its ID
	Keep []string `json:"keep,omitempty"` // the IDs that are lent: all others lose their value
}

// Value is a secret. It does not print.
type Value []byte

// Format keeps the value out of every message.
func (Value) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[secret]")) }
