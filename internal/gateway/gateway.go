// Package gateway judges every flow of one sandbox. What the inside sends
// arrives in a stack of its own (netstack), names are answered from a pool of
// its own (names, dns), and each attempt to connect is put before the policy,
// dialled by the gateway itself, and relayed, or refused.
//
// It knows nothing of what is on the other end of the card's socket, so every
// driver can use it. When it ends, for whatever reason, the card is dead: there
// is nothing behind it that could let packets through.
package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/advice"
	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/internal/gateway/dns"
	"github.com/bothy-dev/bothy/internal/gateway/gitssh"
	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/inspect"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/internal/gateway/namelimit"
	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Config says what a gateway works with.
type Config struct {
	FD int // the gateway's end of the card; New takes it over
	// Unsummed says that the stack inside neither makes nor checks checksums.
	Unsummed bool
	// Sources are whose packets are taken; nil: everybody's.
	Sources []netip.Prefix
	Sandbox string // its name, for what is said to people
	Policy  *policy.Policy
	Names   *namepool.Pool // nil: a new one, with the names of Identity
	// Identity is what programs inside know already; zero: nothing.
	Identity wire.Identity
	Dialer   *dial.Dialer
	Roots    *x509.CertPool // whom servers must be vouched for by; nil: the host's
	// HostPorts are those of the host's loopback that the inside may reach.
	HostPorts []uint16
	// KnownHosts are files that say which keys SSH servers have, for who asks the
	// host's SSH agent.
	KnownHosts []string
	// Mock plays servers; nil: nobody does.
	Mock *Mock
	// Models are names at which models answer. Turn is told when a question to one of
	// them has left the inside, if that is looked into. It must not block, and is called
	// concurrently; nil: nobody is told.
	Models []string
	Turn   func()
	// Servers are others, to which the sandbox is pointed, as HOST:PORT.
	Servers []string
	// Own is the one of them that it was made for; nil: there is none.
	Own *wire.ModelServer
	// Meter counts what they take; nil: nobody does. If it has a budget, nothing passes
	// to them that is not looked into.
	Meter *meter.Meter
	// CatchUp is called before anything new is judged, and may change rules and loans; nil:
	// they change by SetPolicy and SetLoans alone.
	CatchUp func()
	// Uploads has what was sent by rules with a budget; nil: it is forgotten with the
	// gateway.
	Uploads *uploadlimit.Ledger
	// Capture keeps what programs inside are given to log in with; nil: nobody does.
	Capture *Capture
	// Tasks answers about the tasks of the project; nil: they are not shared.
	Tasks http.Handler
	// Loop carries out commands about the loop that works in the sandbox; nil: none does.
	Loop func(args []string) (out, complaint string, code int)
	// Join asks init for servers that Dial cannot reach itself; may be nil.
	Join func(context.Context, wire.Join) error
	// Log is told of every decision and every flow that ended. It must not
	// block for long, and is called concurrently.
	Log func(spec.NetworkRecord)

	now func() time.Time // of the authority; a test moves it
}

// Capture keeps on the host what programs inside are given to log in with.
type Capture struct {
	How spec.AgentLogin // which says where that is
	// Keep keeps tokens, and lends them before it returns. The context ends with the
	// request, if not before.
	Keep func(context.Context, oauthfile.Grant) (lease *spec.Lease, identity string, err error)
}

// forInspector is how the inspector sees it.
func (c *Capture) forInspector() *inspect.Capture {
	if c == nil || c.How.Capture == nil {
		return nil
	}
	return &inspect.Capture{At: inject.NewEndpoint(c.How.Endpoint), Pass: c.How.Capture.Pass, Keep: c.Keep}
}

// Gateway is a running one.
type Gateway struct {
	conf   Config
	stack  *netstack.Stack
	names  *namepool.Pool
	server *dns.Server
	limits *namelimit.Limits
	advice *advice.Handler // answers for the gateway itself
	held   *held.Budget    // what the inside has it hold
	ssh    *held.Budget    // what the SSH library does of it
	copies *held.Budget    // what relays do of it
	ca     *ca.Authority   // whom the inside trusts

	authority wire.Authority // the same, to be kept
	sshKey    *gitssh.Key    // by which ssh inside knows servers

	inspector *inspect.Inspector
	logins    *logins

	policy  *atomic.Pointer[policy.Policy]
	secrets *atomic.Pointer[inject.Set]
	flows   *table
	gits    atomic.Int32 // connections that are looked into as SSH
	locals  atomic.Int32 // connections to the gateway itself
	callers atomic.Int64 // connections to published ports

	life      *lifetime
	expiry    *expiry
	pause     *pause
	journal   *journal
	packets   *packetLog
	mock      *Mock
	models    *models
	ports     *hostPorts
	uploads   *uploads
	agents    *agents
	judge     *judge
	tracks    *tracker
	outbound  *outbound
	inside    *inside
	protocols *protocols
}

// New starts a gateway.
func New(c Config) (*Gateway, error) {
	if c.Names == nil {
		c.Names = namepool.Resume(c.Identity.Names)
	}
	if c.Dialer == nil {
		c.Dialer = &dial.Dialer{}
	}
	if c.Uploads == nil {
		c.Uploads = uploadlimit.New(nil, nil)
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.CatchUp == nil {
		c.CatchUp = func() {}
	}
	g := compose(c)
	g.server = &dns.Server{Zone: zone{g}}
	var err error
	if a := c.Identity.Authority; len(a.Key) > 0 {
		g.ca, err = ca.Resume(c.Sandbox, c.now, a)
	} else {
		g.ca, err = ca.NewAt(c.Sandbox, c.now)
	}
	if err == nil {
		g.authority, err = g.ca.Keep()
	}
	if err == nil {
		g.sshKey, err = sshKey(g.ca, c.now)
	}
	if err != nil {
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	g.conf.Identity = wire.Identity{}
	g.logins = newLogins(g)
	g.inspector = inspect.New(inspect.Config{
		Judge: g.judge.admitRequest, CatchUp: c.CatchUp, Outflow: g.uploads.meterFor, Closed: g.pause.reason, Dial: g.outbound.reachHost, Still: g.judge.mayGoOn, Certificate: g.ca.Leaf, Roots: c.Roots,
		Secrets: g.secrets.Load, Logins: g.logins, Capture: c.Capture.forInspector(), Sandbox: c.Sandbox, Log: g.logRequest,
		Mock: g.mock.player, Sent: g.models.tellTurn(c.Turn), Meter: g.models.meterRequest, Held: g.held, Target: g.models.target, Named: g.models.serverName,
		Local: func(h upstream.Host) http.Handler {
			if h.Name == advice.Name {
				return g.advice
			}
			return nil
		},
	})
	g.stack, err = netstack.New(netstack.Config{
		FD: c.FD, Unsummed: c.Unsummed, Sources: c.Sources, Gateway: []netip.Addr{namepool.Gateway4, namepool.Gateway6},
		TCP: g.attempt, DNS: func(q []byte) []byte { return g.server.Answer(q, false) },
		Refused: g.packets.addRefusal,
	})
	if err != nil {
		g.life.endWork()
		g.inspector.Close()
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	g.inside.stack = g.stack
	g.life.wg.Go(g.packets.recordAll)
	g.watchExpiry()
	return g, nil
}

// compose makes the parts of a gateway and tells each of them about the others that it asks.
func compose(c Config) *Gateway {
	g := &Gateway{
		conf: c, names: c.Names, limits: namelimit.New(), held: held.New(held.Most), mock: c.Mock,
		policy: &atomic.Pointer[policy.Policy]{}, secrets: &atomic.Pointer[inject.Set]{}, flows: &table{},
		life: newLifetime(), expiry: &expiry{}, pause: &pause{}, inside: &inside{join: c.Join},
	}
	g.policy.Store(c.Policy)
	g.ssh, g.copies = g.held.Part(heldBySSH), g.held.Part(heldByRelays)
	g.protocols = &protocols{held: g.held}
	g.journal = newJournal(c.Sandbox, c.Log, g.policy)
	g.packets = newPacketLog(g.life, g.journal, g.names)
	g.models = &models{makers: c.Models, servers: c.Servers, own: c.Own, meter: c.Meter, mock: c.Mock}
	g.ports = newHostPorts(c.Sandbox, c.Dialer, c.HostPorts)
	g.uploads = &uploads{ledger: c.Uploads, policy: g.policy}
	g.agents = &agents{life: g.life, journal: g.journal, pause: g.pause, flows: g.flows, knownHosts: c.KnownHosts, held: g.held}
	g.judge = &judge{policy: g.policy, secrets: g.secrets, capture: c.Capture, ports: g.ports, models: g.models, uploads: g.uploads, agents: g.agents}
	g.tracks = &tracker{sandbox: c.Sandbox, life: g.life, journal: g.journal, pause: g.pause, flows: g.flows, judge: g.judge}
	g.advice = &advice.Handler{
		Sandbox: c.Sandbox, Policy: g.policy.Load, Afford: g.uploads.afford, Refusals: &g.journal.refusals,
		Mocked: g.mock.hostNames(), MockReason: mockReason, Tasks: c.Tasks, Loop: c.Loop,
	}
	g.outbound = &outbound{dialer: c.Dialer, policy: g.policy, ports: g.ports, judge: g.judge}
	return g
}

// Close ends every flow. It returns when all are logged.
func (g *Gateway) Close() {
	g.life.endWork()
	g.expiry.stopTimer()
	for _, f := range g.flows.listFlows() {
		f.cutOff(errStopped)
	}
	g.inspector.Close()
	g.stack.Close()
	g.life.wg.Wait()
}

// SetPolicy puts other rules into force, for what begins now and for what is
// under way: flows that they do not allow end at once.
func (g *Gateway) SetPolicy(p *policy.Policy) {
	g.policy.Store(p)
	g.review()
}

// Certificate is the authority's whom the inside has to trust, in PEM.
func (g *Gateway) Certificate() []byte { return g.ca.Certificate() }

// KnownHosts are lines by which ssh inside trusts it.
func (g *Gateway) KnownHosts() []byte { return g.sshKey.KnownHosts() }

// sshKey is made of the authority's key, and is kept with it.
func sshKey(a *ca.Authority, now func() time.Time) (*gitssh.Key, error) {
	secret, err := a.Derive("ssh host authority")
	if err != nil {
		return nil, err
	}
	return gitssh.NewKey(secret, now)
}

// Identity is what programs inside know it by.
func (g *Gateway) Identity() wire.Identity {
	return wire.Identity{Authority: g.authority, Names: g.names.Names()}
}

// SetLoans replaces the secrets that are lent, also for what is under way:
// requests that went out with one that is taken back end.
func (g *Gateway) SetLoans(loans []wire.Loan) error {
	requests, agents := splitLoans(loans)
	if err := g.logins.setLoans(requests); err != nil {
		return err
	}
	g.agents.loans.Store(&agents)
	g.expiry.follow(loans)
	g.review()
	return nil
}

// Policy is the one in force.
func (g *Gateway) Policy() *policy.Policy { return g.policy.Load() }

// review judges every flow again, and comes back when the next rule ends.
func (g *Gateway) review() {
	for _, f := range g.flows.listFlows() {
		if f.kind != judged && f.kind != toHost {
			continue
		}
		s, over := f.asJudged(), g.judge.mayFlow(f)
		f.requests.Review(func(r *policy.Request, uses inject.Uses, m *uploadlimit.Meter) error {
			d := g.judge.judgeRequest(upstream.Host{Name: s.Name, Addr: s.Addr, Port: s.Port}, r)
			switch {
			case !d.Allowed():
				return changed(d)
			case over != nil:
				return errCarrier
			}
			if err := recount(m, d.Budget); err != nil {
				return err
			}
			if g.models.isBounded(hostOf(s)) && isEndless(r) {
				return errUncounted
			}
			return g.secrets.Load().Lent(uses, time.Now())
		})
		if over != nil {
			f.cutOff(over)
		}
	}
	g.inspector.Review()
	g.watchExpiry()
}

// errCarrier ends the requests on a flow that ends. Why is in the record of that: it may
// tell where a name leads.
var errCarrier = errors.New("its connection may not go on by the rules of now")

// watchExpiry comes back to review when the next rule or lease ends.
func (g *Gateway) watchExpiry() { g.expiry.watchNext(g.policy.Load(), g.review) }
