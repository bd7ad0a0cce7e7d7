package cmdline

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/spec"
)

// PortFlags are the port flags of a new sandbox.
type PortFlags struct{ Publish, HostPorts []string }

// Add adds the flags to a command.
func (f *PortFlags) Add(c *cobra.Command) {
	c.Flags().StringArrayVarP(&f.Publish, "publish", "p", nil, "publish a port on this machine's loopback: [[IP:]HOSTPORT:]PORT[/tcp]")
	c.Flags().StringArrayVar(&f.HostPorts, "allow-host-port", nil, "let the sandbox reach this port of this machine's loopback, as host.bothy")
	CompleteFlag(c, "publish", OneOf())
	CompleteFlag(c, "allow-host-port", OneOf())
}

// Apply puts the ports into a spec.
func (f *PortFlags) Apply(a *App, sb *spec.Sandbox) error {
	notes, err := provision.SetPorts(sb, f.Publish, f.HostPorts)
	for _, note := range notes {
		a.Note("%s", note)
	}
	return err
}

// PortCells formats ports as ls shows them. A port on both loopback addresses is shown at localhost.
func PortCells(ports []spec.Port) string {
	var cells []string
	at := func(host string, p spec.Port) string {
		return fmt.Sprintf("%s:%d->%d/%s", host, p.HostPort, p.Port, p.Protocol)
	}
	for _, p := range ports {
		host := p.HostIP.String()
		if p.HostIP.Is6() {
			host = "[" + host + "]"
		}
		last := len(cells) - 1
		if host == "[::1]" && last >= 0 && cells[last] == at("127.0.0.1", p) {
			cells[last] = at("localhost", p)
			continue
		}
		cells = append(cells, at(host, p))
	}
	return strings.Join(cells, ", ")
}
