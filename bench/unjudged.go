package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Addresses of the cable between a sandbox and the kernel.
const (
	cableMAC   = "02:00:00:00:00:01" // the kernel's end
	insideMAC  = "02:00:00:00:00:02"
	cableAddr  = "198.18.0.1" // the gateway's, so that the inside is the same
	cableMTU   = 65520
	cableNet   = "15"
	cableProto = 0x0300 // ETH_P_ALL, in network order
)

// buildUnjudged builds a bothy whose sandboxes have no gateway: the baseline for ours. The card is the
// usual way to connect gVisor, a socket on one end of a cable of the kernel.
func (b *bench) buildUnjudged(ctx context.Context) (*bothy, error) {
	return b.buildOther(ctx, "unjudged", other{filepath.Join("internal", "driver", "gvisor", "network.go"), map[string]string{
		"QDisc: config.QDiscNone,": fmt.Sprintf("QDisc: config.QDiscNone,\n"+
			"LinkAddress: net.HardwareAddr{2, 0, 0, 0, 0, 2}, IsPacket: []bool{true}, PreConfigured: true,\n"+
			"Neighbors: []boot.Neighbor{{IP: net.ParseIP(%q).To4(), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}},", cableAddr),
		"TXChecksumOffload: true,": "", // the kernel at the other end checks it
	}})
}

// lay makes the cable and gives its far end to the keeper that asks.
func (a *arena) lay(ctx context.Context) error {
	for _, line := range []string{
		"link add cable type veth peer name card",
		fmt.Sprintf("link set cable address %s mtu %d up", cableMAC, cableMTU),
		fmt.Sprintf("link set card address %s mtu %d up", insideMAC, cableMTU),
		"addr add " + cableAddr + "/" + cableNet + " dev cable",
		"neigh replace 198.18.0.2 lladdr " + insideMAC + " dev cable nud permanent",
	} {
		if err := ip(ctx, line); err != nil {
			return err
		}
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, cableProto)
	if err != nil {
		return err
	}
	card, err := net.InterfaceByName("card")
	if err != nil {
		return err
	}
	if err := unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: cableProto, Ifindex: card.Index}); err != nil {
		return err
	}
	for _, o := range []int{unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} {
		if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, o, 8<<20); err != nil {
			return err
		}
	}
	return a.hand(socket)
}

// hand sends a descriptor to every client that connects.
func (a *arena) hand(fd int) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@bothy-bench-card", Net: "unix"})
	if err != nil {
		return err
	}
	a.stops = append(a.stops, func() error { _ = unix.Close(fd); return l.Close() })
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			_, _, _ = c.WriteMsgUnix([]byte{0}, unix.UnixRights(fd), nil)
			_ = c.Close()
		}
	}()
	return nil
}
