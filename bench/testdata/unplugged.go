package main

import (
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/keeper"
)

// network replaces cmd/bothy-keeper/network.go in a binary that only the bench builds: its sandboxes
// have no card.
type network struct{}

// plugged is the network that keepers get.
var plugged keeper.Network = network{}

// Open makes nothing.
func (network) Open(keeper.NetworkOptions) (*driver.Network, keeper.Gateway, error) {
	return nil, nobody{}, nil
}
