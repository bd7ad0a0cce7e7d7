package keeper

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"os"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/keeper/grants"
	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/modelscript"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Network makes gateways. The program hands it in like a driver: the libraries of a gateway take
// time to initialise, and processes that only talk to a keeper need not spend that time.
type Network interface {
	// Open makes a network card and the gateway at its other end. The caller owns the card and closes
	// it once the wall has it.
	Open(NetworkOptions) (*driver.Network, Gateway, error)
}

// NetworkOptions configure a gateway.
type NetworkOptions struct {
	Sandbox string // its name
	Policy  *policy.Policy
	// Docker says that containers inside send packets from addresses of their own.
	Docker bool
	// HostPorts are the ports of the host's loopback that the inside may reach.
	HostPorts []uint16
	// KnownHosts are files with the keys of SSH servers.
	KnownHosts []string
	// Mock plays servers; nil: no server is mocked.
	Mock *Mock
	// Models are host names of model servers; Turn is called when a request to one of them has left
	// the inside.
	Models []string
	Turn   func()
	// Servers are further model servers that the sandbox is pointed to; Own is the one that it was
	// made for.
	Servers []string
	Own     *wire.ModelServer
	// Tasks are those of the project; nil: they are not shared.
	Tasks *Tasks
	// Loop is the one that works in the sandbox; nil: none.
	Loop *Loop
	// Capture keeps the tokens of logins made inside; nil: they are not kept.
	Capture *grants.Capture
	// Meter counts the models' usage.
	Meter *meter.Meter
	// Uploads counts the bytes sent by rules with a budget.
	Uploads *uploadlimit.Ledger
	// Identity is the gateway's identity that programs inside know already; zero: they know none.
	// Without an authority it gets a new one.
	Identity wire.Identity
	// Join asks init for servers that only the inside can reach.
	Join func(context.Context, wire.Join) error
	// Proxies are the caller's environment variables that name its proxies.
	Proxies []string
	// Authorities are accepted for servers besides the host's usual ones, in PEM.
	Authorities []byte
	// Log is called for every decision and everything that ended.
	Log func(spec.NetworkRecord)
	// CatchUp is called before any new decision: rules and leases may have changed.
	CatchUp func()
}

// Tasks are the tasks of a project, and the sandbox's access to them.
type Tasks struct {
	Store  task.Store
	Who    string // the name by which the sandbox holds them
	Access string // spec.TasksRead ...
}

// Loop is a loop, and the directory that contains it.
type Loop struct{ Runs, ID string }

// loopOf returns the loop that works in the sandbox; nil if none does.
func loopOf(sb *spec.Sandbox, l *launch.Settings) *Loop {
	if sb.Loop == "" || l.Runs == "" {
		return nil
	}
	return &Loop{l.Runs, sb.Loop}
}

// tasksOf returns the tasks that the sandbox may know; nil if it may know none.
func tasksOf(sb *spec.Sandbox, l *launch.Settings) *Tasks {
	if sb.Tasks == "" || len(sb.Workspaces) == 0 {
		return nil
	}
	// The tasks of this directory. A directory above may have tasks of many other projects.
	return &Tasks{book.OpenBy(l.Bothy, l.Tasks, sb.Workspaces[0].Source), sb.Name, sb.Tasks}
}

// Mock is a scripted model that answers instead of servers.
type Mock struct {
	Script modelscript.Script
	Hosts  []string // the host names of those servers
	// Asked is called for every request. It must not block for long.
	Asked func(spec.ModelRequest)
}

// Gateway decides about the traffic that leaves a card.
type Gateway interface {
	// SetPolicy puts other rules into force, also for traffic under way.
	SetPolicy(*policy.Policy)
	// SetLoans replaces the lent secrets, also for traffic under way.
	SetLoans([]wire.Loan) error
	// Certificate is that of the authority that the inside has to trust, in PEM.
	Certificate() []byte
	// KnownHosts are the lines by which the inside verifies SSH servers.
	KnownHosts() []byte
	// Identity is the gateway's identity towards programs inside.
	Identity() wire.Identity
	// Dial connects to a server inside.
	Dial(ctx context.Context, port uint16) (net.Conn, error)
	// Publish carries connections to a listener to a port inside. The returned function closes the
	// listener and ends those connections.
	Publish(l *net.TCPListener, port uint16) (end func())
	// SetHostPorts opens these ports of the host and no others.
	SetHostPorts([]uint16)
	Flows() []spec.Flow
	// SetBudget bounds the usage of models, also of requests under way.
	SetBudget(spec.Budget)
	// Pause lets nothing new through, whatever the policy, and reports the reason. An empty reason
	// ends the pause.
	Pause(reason string)
	Close()
}

// openGateway opens the gateway and returns the card for the wall.
func (k *Keeper) openGateway(n Network) (card *driver.Network, err error) {
	for name, v := range k.launch.Roots {
		_ = os.Setenv(name, v) // read when the first server certificate is verified
	}
	var id wire.Identity
	if k.memory != nil {
		id.Names = k.memory.Names
	}
	if a := k.launch.Authority; a != nil {
		id.Authority, k.launch.Authority = *a, nil
	}
	card, k.gateway, err = n.Open(NetworkOptions{
		Sandbox: k.spec.Name, Docker: k.spec.Docker, Policy: k.grants.Policy(), HostPorts: k.spec.HostPorts, Mock: k.mock, Join: k.joinServer, Log: k.logTraffic,
		KnownHosts: k.launch.KnownHosts, Models: k.launch.Models, Servers: k.launch.Servers, Own: k.launch.Own, Turn: k.happened.countTurn, Meter: k.bill.Meter(), Uploads: k.uploads, Tasks: tasksOf(k.spec, &k.launch), Loop: loopOf(k.spec, &k.launch), Capture: k.grants.Capture(), Identity: id, CatchUp: k.grants.CatchUp,
		Proxies: k.launch.Proxies, Authorities: k.launch.Authorities,
	})
	if err != nil {
		return nil, err
	}
	k.grants.UseGateway(k.gateway)
	if len(card.Gateways) > 0 {
		k.agent.at = netip.AddrPortFrom(card.Gateways[0], wire.AgentPort)
	}
	k.traffic.PauseWhileBroken(k.gateway.Pause)
	return card, nil
}

// joinServer asks init to connect a server on the inside's loopback to the gateway.
func (k *Keeper) joinServer(ctx context.Context, j wire.Join) error {
	_, err := k.link.Ask(ctx, wire.InitAsk{Ask: wire.AskJoin, Join: j})
	return err
}

// answerPolicy puts other rules into force. If own is set they lack the project's rules, which
// stay as they are.
func (k *Keeper) answerPolicy(c *unixconn.Conn, layers json.RawMessage, own bool) error {
	if err := k.grants.SetPolicy(layers, own); err != nil {
		return err
	}
	return c.SendJSON(wire.Reply, struct{}{})
}

// logTraffic logs a record, and notes that the sandbox is in use.
func (k *Keeper) logTraffic(r spec.NetworkRecord) {
	if r.Direction == spec.DirectionIn {
		k.served.Add(1)
	}
	k.traffic.Record(r)
}

// noteNetwork writes the state of the network log into the status.
func (k *Keeper) noteNetwork() {
	k.status.Update(func(st *spec.Status) { st.NetworkPaused = k.traffic.PausedBecause() })
}

// noteUnlent writes the leases without effect into the status.
func (k *Keeper) noteUnlent(list []spec.Unlent) {
	k.status.Update(func(st *spec.Status) { st.Unlent = list })
}

// answerLoans changes the lent secrets for a caller.
func (k *Keeper) answerLoans(c *unixconn.Conn, change wire.LoanChange) error {
	before := len(k.grants.NotLent())
	err := k.grants.ChangeLoans(change)
	if len(k.grants.NotLent()) != before {
		k.noteUnlent(k.grants.NotLent())
	}
	if err != nil {
		return err
	}
	return c.SendJSON(wire.Reply, struct{}{})
}
