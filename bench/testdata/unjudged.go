package main

import (
	"errors"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/keeper"
)

// network replaces cmd/bothy-keeper/network.go in a binary that only the bench builds: at the other end
// of the card is the kernel instead of a gateway.
type network struct{}

// plugged is the network that keepers get.
var plugged keeper.Network = network{}

// Open gets the card from the bench, because a keeper may not make such a socket.
func (network) Open(keeper.NetworkOptions) (*driver.Network, keeper.Gateway, error) {
	card, err := receive("@bothy-bench-card")
	if err != nil {
		return nil, nil, err
	}
	return &driver.Network{
		Card: card, MTU: netstack.MTU,
		Addresses: []netip.Prefix{netip.PrefixFrom(namepool.Inside4, namepool.Network4.Bits())},
		Gateways:  []netip.Addr{namepool.Gateway4},
	}, nobody{}, nil
}

func receive(name string) (*os.File, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("no card came"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errors.New("no card came"), err)
	}
	return os.NewFile(uintptr(fds[0]), "network card"), nil
}
