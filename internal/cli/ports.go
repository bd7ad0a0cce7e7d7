package cli

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/reconfigure"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) portsCommand() *cobra.Command {
	var f cmdline.PortFlags
	var unpublish, closed []string
	c := &cobra.Command{
		Use: "ports [flags] SANDBOX", Short: "List and change the ports between a sandbox and this machine",
		Long: `Lists the ports of a sandbox that are published on this machine. With --publish
and --unpublish it changes them, also while the sandbox runs, and for its later
starts; a stopped one is started to publish. With --allow-host-port the sandbox
reaches one port of this machine's loopback, under the name host.bothy.`,
		Example: `  bothy ports shell-app --publish 3000          at a free port of this machine
  bothy ports shell-app --publish 8080:3000     at http://localhost:8080
  bothy ports shell-app --unpublish 3000
  bothy ports shell-app --allow-host-port 5432  host.bothy:5432 inside`,
		Args: cmdline.Exactly(1, "a sandbox"), ValidArgsFunction: a.OneSandbox,
		RunE: a.OnSandbox(func(cmd *cobra.Command, args []string, e *engine.Engine, sb *spec.Sandbox) error {
			if len(f.Publish)+len(f.HostPorts)+len(unpublish)+len(closed) > 0 {
				err := reconfigure.Ports(cmd.Context(), e, sb, len(f.Publish) > 0, func(sb *spec.Sandbox, at []spec.Port) error {
					if err := unpublishAll(sb, unpublish, at); err != nil {
						return err
					}
					if err := provision.EachPort(closed, func(n uint16) error { return netrules.CloseHostPort(sb, n) }); err != nil {
						return err
					}
					return f.Apply(a.App, sb)
				})
				if err != nil {
					return err
				}
			}
			return a.showPorts(e, args[0])
		}),
	}
	f.Add(c)
	c.Flags().StringArrayVar(&unpublish, "unpublish", nil, "publish a port no longer: PORT, HOSTPORT:PORT or IP:HOSTPORT:PORT")
	c.Flags().StringArrayVar(&closed, "deny-host-port", nil, "close a port of this machine again")
	cmdline.CompleteFlag(c, "unpublish", cmdline.OneOf())
	cmdline.CompleteFlag(c, "deny-host-port", cmdline.OneOf())
	return a.JSONFlag(c)
}

func unpublishAll(sb *spec.Sandbox, texts []string, at []spec.Port) error {
	for _, text := range texts {
		p, err := spec.ParsePort(text)
		if err == nil {
			err = netrules.Unpublish(sb, p, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// showPorts lists the ports of a sandbox. If it does not run, it lists the ports for the next start.
func (a *app) showPorts(e *engine.Engine, name string) error {
	sb, err := e.Find(name)
	if err != nil {
		return err
	}
	st := e.Status(sb)
	ports := st.Ports
	if st.State != spec.Running {
		ports = planned(sb.Ports)
		if len(ports) > 0 {
			a.Note("sandbox %s does not run: its ports are published when it starts", sb.Name)
		}
	}
	if a.JSON {
		return a.PrintJSON(append([]spec.Port{}, ports...))
	}
	w := a.Table()
	fmt.Fprintln(w, "HOST IP\tHOST PORT\tSANDBOX PORT\tPROTOCOL")
	for _, p := range ports {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", p.HostIP, portOrAny(p.HostPort), p.Port, p.Protocol)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, n := range sb.HostPorts {
		fmt.Fprintf(a.Out, "inside, host.bothy:%d is port %d of this machine\n", n, n)
	}
	return nil
}

// planned lists the addresses that ports will have.
func planned(wishes []spec.Port) []spec.Port {
	var list []spec.Port
	for _, p := range wishes {
		if p.HostIP.IsValid() {
			list = append(list, p)
			continue
		}
		for _, ip := range []string{"127.0.0.1", "::1"} {
			q := p
			q.HostIP = netip.MustParseAddr(ip)
			list = append(list, q)
		}
	}
	return list
}

func portOrAny(port uint16) string {
	if port == 0 {
		return "any"
	}
	return fmt.Sprint(port)
}
