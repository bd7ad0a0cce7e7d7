// Package credential lends secrets to sandboxes. [Values] reads, seals and finds the values of secrets
// on the host: in the vault, in the environment, in the files and keyrings of tools, and in the logins
// of agents. [Broker] makes, changes and ends the leases of sandboxes, collects the loans of a sandbox
// when it starts, and tells running sandboxes about changes.
//
// A value in plain text goes from its source to the keeper of a sandbox, and nowhere else: neither
// to the disk nor into the sandbox.
package credential

import (
	"context"

	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Broker lends secrets to sandboxes.
type Broker struct {
	Values    *Values
	sandboxes Sandboxes
}

// Sandboxes is the part of the life cycle of sandboxes that a broker needs.
type Sandboxes interface {
	// TellLoans tells the keeper of a sandbox its current loans. It does nothing for a sandbox that does
	// not run: the next start reads the leases. The error says that the keeper could not be told.
	TellLoans(ctx context.Context, sb *spec.Sandbox, change wire.LoanChange) error
	// EditPolicy changes the rules of a sandbox, and puts them into force.
	EditPolicy(ctx context.Context, sb *spec.Sandbox, edit func(*policyfile.File) error) error
	// RevokeAway ends the chosen leases of sandboxes that are put away, and calls revoked for each
	// sandbox that had some. The caller holds the lock of the vault.
	RevokeAway(which func(*spec.Lease) bool, revoked func(*spec.Sandbox, []spec.Lease)) error
}

// NewBroker returns a broker that lends values to sandboxes.
func NewBroker(v *Values, s Sandboxes) *Broker { return &Broker{Values: v, sandboxes: s} }
