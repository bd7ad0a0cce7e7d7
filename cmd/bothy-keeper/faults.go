//go:build bothy_faults

package main

import (
	"net/netip"
	"slices"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/spec"
)

// A build for test/faults, in which a gateway or a keeper panics on request:
//
//	the name lookup.panic.example    while names are answered
//	a connection to 203.0.113.66     while it is judged
//	a request to request.panic.example    while it is recorded
//	port 1 of the host               while a command is answered
func init() { plugged = faulty{plugged} }

type faulty struct{ keeper.Network }

// Open is the real network's, with faults.
func (f faulty) Open(o keeper.NetworkOptions) (*driver.Network, keeper.Gateway, error) {
	log := o.Log
	o.Log = func(r spec.NetworkRecord) {
		switch {
		case r.Event == spec.NetworkLookup && r.Name == "lookup.panic.example",
			r.Event == spec.NetworkFlow && r.Addr == netip.MustParseAddr("203.0.113.66"),
			r.Event == spec.NetworkRequest && r.Name == "request.panic.example":
			panic("a mistake at a " + r.Event)
		}
		log(r)
	}
	card, g, err := f.Network.Open(o)
	return card, faultyGateway{g}, err
}

type faultyGateway struct{ keeper.Gateway }

// SetHostPorts is the real gateway's, with a fault.
func (g faultyGateway) SetHostPorts(ports []uint16) {
	if slices.Contains(ports, 1) {
		panic("a mistake at port 1")
	}
	g.Gateway.SetHostPorts(ports)
}
