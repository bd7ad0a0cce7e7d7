package gvisor

import (
	"net"
	"net/netip"
	"os"
	"runtime"

	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/sandbox"

	"github.com/bothy-dev/bothy/internal/driver"
)

// plugCard gives a created, not yet started sandbox its network card. gVisor's own network setup copies a
// card from a namespace of the host; our card has no namespace. It takes effect at the start.
func plugCard(s *sandbox.Sandbox, n *driver.Network) error {
	conn, err := connect(s)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return conn.Call(boot.ContMgrSetNetworkArgs, linksAndRoutes(n), nil)
}

// started returns the configuration to start a sandbox whose network is already set up. "host" is the
// one value with which gVisor leaves the network alone. The sentry was created with another value
// and never sees this one.
func started(conf *config.Config) *config.Config {
	c := *conf
	c.Network = config.NetworkHost
	return &c
}

// linksAndRoutes describes the card for gVisor. It has no segmentation offload: connections would not survive a
// checkpoint, and with such a large MTU it gains nothing. It has no checksums either: packets on the
// card never leave this host's memory.
func linksAndRoutes(n *driver.Network) *boot.CreateLinksAndRoutesArgs {
	link := boot.FDBasedLink{
		Name: "eth0", MTU: n.MTU, NumChannels: 1, QDisc: config.QDiscNone,
		// gVisor's default; but gVisor adds 128 if it makes the card while it reads a save. Each
		// processor takes 190 objects in every image of the memory.
		ProcessorsPerChannel: runtime.NumCPU(),
		RXChecksumOffload:    true, TXChecksumOffload: true,
	}
	a := &boot.CreateLinksAndRoutesArgs{
		FilePayload:   urpc.FilePayload{Files: []*os.File{n.Card}},
		LoopbackLinks: []boot.LoopbackLink{boot.DefaultLoopbackLink},
	}
	for _, p := range n.Addresses {
		link.Addresses = append(link.Addresses, boot.IPWithPrefix{Address: p.Addr().AsSlice(), PrefixLen: p.Bits()})
		link.Routes = append(link.Routes, boot.Route{Destination: network(p.Masked())})
	}
	a.FDBasedLinks = []boot.FDBasedLink{link}
	for _, g := range n.Gateways {
		route := boot.DefaultRoute{Name: link.Name, Route: boot.Route{Gateway: g.AsSlice()}}
		if g.Is4() {
			route.Route.Destination = network(netip.PrefixFrom(netip.IPv4Unspecified(), 0))
			a.Defaultv4Gateway = route
		} else {
			route.Route.Destination = network(netip.PrefixFrom(netip.IPv6Unspecified(), 0))
			a.Defaultv6Gateway = route
		}
	}
	return a
}

func network(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
