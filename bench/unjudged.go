package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Of the cable between a sandbox and the kernel.
const (
	cableMAC   = "02:00:00:00:00:01" // the kernel's end
	insideMAC  = "02:00:00:00:00:02"
	cableAddr  = "198.18.0.1" // as the gateway's, so that the inside is the same
	cableMTU   = 65520
	cableNet   = "15"
	cableProto = 0x0300 // ETH_P_ALL, in network order
)

// buildUnjudged builds a bothy whose sandboxes have no gateway: what a client
// in one gets is what ours is measured by. The card is the usual way to connect
// gVisor, a socket on one end of a cable of the kernel's.
func (b *bench) buildUnjudged(ctx context.Context) (*bothy, error) {
	card := filepath.Join(b.root, "internal", "driver", "gvisor", "network.go")
	source, err := os.ReadFile(card)
	if err != nil {
		return nil, err
	}
	changed := string(source)
	for as, with := range map[string]string{
		"QDisc: config.QDiscNone,": fmt.Sprintf("QDisc: config.QDiscNone,\n"+
			"LinkAddress: net.HardwareAddr{2, 0, 0, 0, 0, 2}, IsPacket: []bool{true}, PreConfigured: true,\n"+
			"Neighbors: []boot.Neighbor{{IP: net.ParseIP(%q).To4(), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}},", cableAddr),
		"TXChecksumOffload: true,": "", // the kernel at the other end looks
	} {
		if !strings.Contains(changed, as) {
			return nil, fmt.Errorf("%s no longer says %q: change the bench with it", card, as)
		}
		changed = strings.Replace(changed, as, with, 1)
	}
	own := filepath.Join(b.work, "network.go")
	if err := os.WriteFile(own, []byte(changed), 0o644); err != nil {
		return nil, err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		card: own,
		filepath.Join(b.root, "cmd", "bothy", "network.go"): filepath.Join(b.root, "bench", "testdata", "unjudged.go"),
	}})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.work, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		return nil, err
	}
	free := &bothy{bin: filepath.Join(b.work, "bin", "bothy-unjudged"), home: filepath.Join(b.work, "unjudged")}
	free.env = append(cleanEnv(filepath.Join(b.work, "home")), "BOTHY_HOME="+free.home)
	return free, buildGo(ctx, b.root, file, free.bin, "./cmd/bothy")
}

// lay lays the cable and hands its far end to the keeper that asks.
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

// hand gives a descriptor to everybody who connects.
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
