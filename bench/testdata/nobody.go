package main

import (
	"context"
	"errors"
	"net"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// nobody judges. What a keeper asks of a gateway that works is not asked here.
type nobody struct{ keeper.Gateway }

func (nobody) SetPolicy(*policy.Policy)   {}
func (nobody) SetLoans([]wire.Loan) error { return nil }

// Certificate is one that the inside can be made to trust, and nobody uses.
func (nobody) Certificate() []byte {
	a, err := ca.New("nobody")
	if err != nil {
		panic(err)
	}
	return a.Certificate()
}

// KnownHosts is nobody whom ssh would trust.
func (nobody) KnownHosts() []byte { return nil }

func (nobody) Flows() []spec.Flow { return nil }
func (nobody) Close()             {}
func (nobody) Dial(context.Context, uint16) (net.Conn, error) {
	return nil, errors.New("nobody dials")
}
