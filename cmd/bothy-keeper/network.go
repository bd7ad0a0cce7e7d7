package main

import (
	"net/netip"
	"os"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/gateway"
	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/hostproxy"
	"github.com/bothy-dev/bothy/internal/hostproxy/transport"
	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/internal/loopserver"
	"github.com/bothy-dev/bothy/internal/modelserver"
	"github.com/bothy-dev/bothy/internal/taskserver"
)

// network adapts the gateway to the interface that the keeper expects. The two packages do not import
// each other.
type network struct{}

// plugged is the network that keepers use.
var plugged keeper.Network = network{}

// Open makes a network card, and a gateway at its other end.
func (network) Open(o keeper.NetworkOptions) (*driver.Network, keeper.Gateway, error) {
	mock, err := playProgram(o.Mock)
	if err != nil {
		return nil, nil, err
	}
	roots, err := transport.Roots(o.Authorities)
	if err != nil {
		return nil, nil, err
	}
	fd, inside, err := netstack.Card()
	if err != nil {
		return nil, nil, err
	}
	card := os.NewFile(uintptr(inside), "network card")
	conf := gateway.Config{
		Dialer: &dial.Dialer{Proxies: hostproxy.Read(o.Proxies), Roots: roots}, Roots: roots,
		Sources:  sources(o.Docker),
		Unsummed: true, // gVisor's stack, as driver/gvisor sets it up
		FD:       fd, Sandbox: o.Sandbox, Policy: o.Policy, HostPorts: o.HostPorts, Mock: mock, Join: o.Join, Log: o.Log,
		KnownHosts: o.KnownHosts, Models: o.Models, Servers: o.Servers, Own: o.Own, Turn: o.Turn, Meter: o.Meter, Uploads: o.Uploads, Identity: o.Identity, CatchUp: o.CatchUp,
	}
	if c := o.Capture; c != nil {
		conf.Capture = &gateway.Capture{How: c.How, Keep: c.Keep}
	}
	if t := o.Tasks; t != nil {
		conf.Tasks = &taskserver.Server{Store: t.Store, Who: t.Who, Access: t.Access}
	}
	if l := o.Loop; l != nil {
		conf.Loop = (&loopserver.Server{Runs: l.Runs, Loop: l.ID, Sandbox: o.Sandbox}).Command
	}
	g, err := gateway.New(conf)
	if err != nil {
		_ = card.Close()
		return nil, nil, err
	}
	return &driver.Network{
		Card: card, MTU: netstack.MTU,
		Addresses: []netip.Prefix{
			netip.PrefixFrom(namepool.Inside4, namepool.Network4.Bits()), netip.PrefixFrom(namepool.Inside6, namepool.Network6.Bits()),
		},
		Gateways: []netip.Addr{namepool.Gateway4, namepool.Gateway6},
	}, g, nil
}

// sources returns the addresses whose packets the gateway accepts: the card's and, for Docker, the
// private ones of container networks. Nothing inside translates addresses, and no other machine uses the
// card.
func sources(docker bool) []netip.Prefix {
	list := []netip.Prefix{
		netip.PrefixFrom(namepool.Inside4, namepool.Inside4.BitLen()), netip.PrefixFrom(namepool.Inside6, namepool.Inside6.BitLen()),
	}
	if docker {
		for _, private := range []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"} {
			list = append(list, netip.MustParsePrefix(private))
		}
	}
	return list
}

// playProgram returns the model that answers in place of real servers, if the sandbox has a mock.
func playProgram(m *keeper.Mock) (*gateway.Mock, error) {
	if m == nil {
		return nil, nil
	}
	model, err := modelserver.New(m.Script)
	if err != nil {
		return nil, err
	}
	model.Record = func(q modelserver.Request) { m.Asked(q.Told()) }
	return &gateway.Mock{Hosts: m.Hosts, Player: model}, nil
}
