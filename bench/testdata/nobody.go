package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// nobody is a gateway that does not judge. It lacks the parts of a gateway that the bench does not use.
type nobody struct{ keeper.Gateway }

func (nobody) SetPolicy(*policy.Policy)   {}
func (nobody) SetLoans([]wire.Loan) error { return nil }

// Certificate returns a certificate for the inside to trust. It is never used.
func (nobody) Certificate() []byte {
	a, err := ca.New("nobody", time.Now)
	if err != nil {
		panic(err)
	}
	return a.Certificate()
}

// KnownHosts returns nothing: ssh trusts no authority.
func (nobody) KnownHosts() []byte { return nil }

func (nobody) Flows() []spec.Flow { return nil }
func (nobody) Close()             {}
func (nobody) Dial(context.Context, uint16) (net.Conn, error) {
	return nil, errors.New("nobody dials")
}
