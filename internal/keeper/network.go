package keeper

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/internal/gateway/outflow"
	"github.com/bothy-dev/bothy/internal/modelscript"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Network makes gateways. It is handed in like a driver: what a gateway links
// takes time to initialise, which processes that only talk to a keeper need not
// spend.
type Network interface {
	// Open makes a network card and the gateway at its other end. The card is
	// the caller's, to close once the wall has it.
	Open(NetworkOptions) (*driver.Network, Gateway, error)
}

// NetworkOptions say what a gateway goes by.
type NetworkOptions struct {
	Sandbox string // its name
	Policy  *policy.Policy
	// Docker says that containers inside send packets from addresses of their own.
	Docker bool
	// HostPorts are those of the host's loopback that the inside may reach.
	HostPorts []uint16
	// KnownHosts are files that say which keys SSH servers have.
	KnownHosts []string
	// Mock plays servers; nil: nobody does.
	Mock *Mock
	// Models are names at which models answer; Turn is told when a question to one of
	// them has left the inside.
	Models []string
	Turn   func()
	// Servers are others, to which the sandbox is pointed; Own is the one that it was made for.
	Servers []string
	Own     *wire.ModelServer
	// Tasks are those of the project; nil: they are not shared.
	Tasks *Tasks
	// Loop is the one that works in the sandbox; nil: none does.
	Loop *Loop
	// Capture keeps what programs inside are given to log in with; nil: nobody does.
	Capture *Capture
	// Meter counts what they take.
	Meter *meter.Meter
	// Uploads has what was sent by rules with a budget.
	Uploads *outflow.Ledger
	// Identity is what programs inside know their gateway by already; zero: they know
	// none. Without an authority it gets a new one.
	Identity wire.Identity
	// Join asks init for servers that only the inside itself can reach.
	Join func(context.Context, wire.Join) error
	// Proxies are variables of the caller's environment that name its proxies.
	Proxies []string
	// Authorities vouch for servers besides the host's usual ones, in PEM.
	Authorities []byte
	// Log is told of every decision and everything that ended.
	Log func(spec.NetworkRecord)
	// CatchUp is called before anything new is judged: rules and leases may have changed.
	CatchUp func()
}

// Tasks are those of a project, and what a sandbox may do with them.
type Tasks struct {
	Store  task.Store
	Who    string // by what name it holds them
	Access string // spec.TasksRead ...
}

// Loop is a loop, and where it is kept.
type Loop struct{ Runs, ID string }

// loop is the one that works in the sandbox; nil if none does.
func (k *Keeper) loop() *Loop {
	if k.spec.Loop == "" || k.launch.Runs == "" {
		return nil
	}
	return &Loop{k.launch.Runs, k.spec.Loop}
}

// tasks are those that the sandbox may know; nil if there are none.
func (k *Keeper) tasks() *Tasks {
	if k.spec.Tasks == "" || len(k.spec.Workspaces) == 0 {
		return nil
	}
	// Those of this directory, and not of one above it, whose tasks may be of much else.
	return &Tasks{book.OpenBy(k.launch.Bothy, k.launch.Tasks, k.spec.Workspaces[0].Source), k.spec.Name, k.spec.Tasks}
}

// Mock is a scripted model that answers in the place of servers.
type Mock struct {
	Script modelscript.Script
	Hosts  []string // whose names they have
	// Asked is told of every request. It must not block for long.
	Asked func(spec.ModelRequest)
}

// Gateway is who judges what comes out of a card.
type Gateway interface {
	// SetPolicy puts other rules into force, also for what is under way.
	SetPolicy(*policy.Policy)
	// SetLoans replaces the secrets that are lent, also for what is under way.
	SetLoans([]wire.Loan) error
	// Certificate is the authority's whom the inside has to trust, in PEM.
	Certificate() []byte
	// KnownHosts are lines that say who vouches for servers of SSH towards the inside.
	KnownHosts() []byte
	// Identity is what programs inside know it by.
	Identity() wire.Identity
	// Dial connects to a server inside.
	Dial(ctx context.Context, port uint16) (net.Conn, error)
	// Publish carries what connects to a listener to a port inside. What it
	// returns closes the listener and ends those connections.
	Publish(l *net.TCPListener, port uint16) (end func())
	// SetHostPorts opens these ports of the host and no others.
	SetHostPorts([]uint16)
	Flows() []spec.Flow
	// SetBudget bounds what models may take, also of what is under way.
	SetBudget(spec.Budget)
	// Pause lets nothing new through, whatever the policy, and tells why. An
	// empty reason ends the pause.
	Pause(reason string)
	Close()
}

// plug opens the gateway and gives the card for the wall.
func (k *Keeper) plug(n Network) (card *driver.Network, err error) {
	for name, v := range k.launch.Roots {
		_ = os.Setenv(name, v) // read when the first server is to be vouched for
	}
	var id wire.Identity
	if k.memory != nil {
		id.Names = k.memory.Names
	}
	if a := k.launch.Authority; a != nil {
		id.Authority, k.launch.Authority = *a, nil
	}
	card, k.gateway, err = n.Open(NetworkOptions{
		Sandbox: k.spec.Name, Docker: k.spec.Docker, Policy: k.policy, HostPorts: k.spec.HostPorts, Mock: k.mock, Join: k.join, Log: k.logTraffic,
		KnownHosts: k.launch.KnownHosts, Models: k.launch.Models, Servers: k.launch.Servers, Own: k.launch.Own, Turn: k.happened.turn, Meter: k.bill.meter, Uploads: k.uploads, Tasks: k.tasks(), Loop: k.loop(), Capture: k.captures(), Identity: id, CatchUp: k.catchUp,
		Proxies: k.launch.Proxies, Authorities: k.launch.Authorities,
	})
	if err != nil {
		return nil, err
	}
	if len(card.Gateways) > 0 {
		k.agent.at = netip.AddrPortFrom(card.Gateways[0], wire.AgentPort)
	}
	k.traffic.guard(k.gateway.Pause)
	return card, nil
}

// join asks init to connect a server of the inside's loopback to the gateway.
func (k *Keeper) join(ctx context.Context, j wire.Join) error {
	_, err := k.link.ask(ctx, wire.InitAsk{Ask: wire.AskJoin, Join: j})
	return err
}

// compile reads the layers that the engine collected, and adds some more.
func compile(generation uint64, layers json.RawMessage, more ...policy.Input) (*policy.Policy, []policy.Input, error) {
	var inputs []policy.Input
	if err := json.Unmarshal(layers, &inputs); err != nil {
		return nil, nil, fmt.Errorf("read the network policy: %w", err)
	}
	inputs = append(inputs, more...)
	p, err := policy.Compile(generation, inputs...)
	if err != nil {
		return nil, nil, fmt.Errorf("compile the network policy: %w", err)
	}
	return p, inputs, nil
}

// answerPolicy puts other rules into force. Own ones are without those of the project,
// which stay as they are.
func (k *Keeper) answerPolicy(c *unixconn.Conn, layers json.RawMessage, own bool) error {
	if err := k.setPolicy(layers, own); err != nil {
		return err
	}
	return c.SendJSON(wire.Reply, struct{}{})
}

func (k *Keeper) setPolicy(layers json.RawMessage, own bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var kept []policy.Input
	if own {
		kept = projectOf(k.rules)
	}
	p, inputs, err := compile(k.policy.Generation()+1, layers, kept...)
	if err != nil {
		return err
	}
	k.policy, k.rules = p, inputs
	k.gateway.SetPolicy(p)
	k.traffic.flush()
	k.traffic.record(spec.NetworkRecord{Event: spec.NetworkPolicy, Sandbox: k.spec.Name, Generation: p.Generation()})
	return nil
}

// projectOf are the layers of the project.
func projectOf(inputs []policy.Input) (list []policy.Input) {
	for _, in := range inputs {
		if in.Layer == policy.LayerProject {
			list = append(list, in)
		}
	}
	return list
}

// generation is that of the rules in force.
func (k *Keeper) generation() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.policy.Generation()
}

// logTraffic has a record written, and notes that somebody used the sandbox.
func (k *Keeper) logTraffic(r spec.NetworkRecord) {
	if r.Direction == spec.DirectionIn {
		k.served.Add(1)
	}
	k.traffic.record(r)
}
