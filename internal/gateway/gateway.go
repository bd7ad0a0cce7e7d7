// Package gateway judges every flow of one sandbox. The packets of the inside arrive in the gateway's
// own stack (netstack). The gateway answers names from its own pool (names, dns). It asks the policy
// about each attempt to connect, and then dials the server itself and relays, or refuses.
//
// It does not depend on the other end of the card's socket, so every driver can use it. When the gateway
// ends, for whatever reason, the card is dead: no other program could let packets through.
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

// Config configures a gateway.
type Config struct {
	FD int // the gateway's end of the card; New takes it over
	// Unsummed says that the stack inside neither makes nor checks checksums.
	Unsummed bool
	// Sources are the prefixes whose packets are taken; nil means all.
	Sources []netip.Prefix
	Sandbox string // its name, for messages to people
	Policy  *policy.Policy
	Names   *namepool.Pool // nil means a new one, with the names of Identity
	// Identity holds the facts that programs inside know already; zero means none.
	Identity wire.Identity
	Dialer   *dial.Dialer
	Roots    *x509.CertPool // authorities that must vouch for servers; nil means the host's
	// HostPorts are the ports of the host's loopback that the inside may reach.
	HostPorts []uint16
	// KnownHosts are the files with the keys of SSH servers, for users of the host's SSH agent.
	KnownHosts []string
	// Mock plays servers; nil means that none is played.
	Mock *Mock
	// Models are names at which models answer. Turn is called when a question to one of them has left
	// the inside on an inspected connection. It must not block, and is called concurrently; nil means no
	// call.
	Models []string
	Turn   func()
	// Servers are further model servers to which the sandbox is pointed, as HOST:PORT.
	Servers []string
	// Own is the server of these that the sandbox was made for; nil means none.
	Own *wire.ModelServer
	// Meter counts the use of models; nil means no counting. If it has a budget, all traffic to them is
	// inspected.
	Meter *meter.Meter
	// CatchUp is called before anything new is judged, and may change rules and loans. If it is nil,
	// they change only by SetPolicy and SetLoans.
	CatchUp func()
	// Uploads records the bytes sent by rules with a budget; nil means that they are forgotten with the
	// gateway.
	Uploads *uploadlimit.Ledger
	// Capture keeps the logins that programs inside are given; nil means that none is kept.
	Capture *Capture
	// Tasks answers about the tasks of the project; nil means that they are not shared.
	Tasks http.Handler
	// Loop carries out commands about the loop that works in the sandbox; nil means that none does.
	Loop func(args []string) (out, complaint string, code int)
	// Join asks init to connect to servers that Dial cannot reach itself; may be nil.
	Join func(context.Context, wire.Join) error
	// Log is called with every decision and with every flow that has ended. It must not block for long,
	// and is called concurrently.
	Log func(spec.NetworkRecord)

	now func() time.Time // the clock of the authority; a test changes it
}

// Capture keeps on the host the logins that programs inside are given.
type Capture struct {
	How spec.AgentLogin // says where logins are given
	// Keep keeps tokens, and lends them before it returns. The context ends with the request, or
	// earlier.
	Keep func(context.Context, oauthfile.Grant) (lease *spec.Lease, identity string, err error)
}

// forInspector returns the capture in the inspector's form.
func (c *Capture) forInspector() *inspect.Capture {
	if c == nil || c.How.Capture == nil {
		return nil
	}
	return &inspect.Capture{At: inject.NewEndpoint(c.How.Endpoint), Pass: c.How.Capture.Pass, Keep: c.Keep}
}

// Gateway is a running gateway.
type Gateway struct {
	conf   Config
	stack  *netstack.Stack
	names  *namepool.Pool
	server *dns.Server
	limits *namelimit.Limits
	advice *advice.Handler // answers for the gateway itself
	held   *held.Budget    // memory that the inside makes the gateway hold
	ssh    *held.Budget    // the SSH library's part of it
	copies *held.Budget    // the relays' part of it
	ca     *ca.Authority   // which the inside trusts

	authority wire.Authority // the same, in the form in which it is kept
	sshKey    *gitssh.Key    // by which ssh inside knows servers

	inspector *inspect.Inspector
	logins    *logins

	policy  *atomic.Pointer[policy.Policy]
	secrets *atomic.Pointer[inject.Set]
	flows   *table
	gits    atomic.Int32 // connections that are inspected as SSH
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
		g.ca, err = ca.New(c.Sandbox, c.now)
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

// compose makes the parts of a gateway, and gives each the others that it needs.
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

// SetPolicy puts other rules into force, for new and for active flows: flows that they do not allow end
// at once.
func (g *Gateway) SetPolicy(p *policy.Policy) {
	g.policy.Store(p)
	g.review()
}

// Certificate returns the certificate, in PEM, of the authority that the inside has to trust.
func (g *Gateway) Certificate() []byte { return g.ca.Certificate() }

// KnownHosts returns the lines by which ssh inside trusts the authority.
func (g *Gateway) KnownHosts() []byte { return g.sshKey.KnownHosts() }

// sshKey derives the SSH key from the authority's key, with which it is kept.
func sshKey(a *ca.Authority, now func() time.Time) (*gitssh.Key, error) {
	secret, err := a.Derive("ssh host authority")
	if err != nil {
		return nil, err
	}
	return gitssh.NewKey(secret, now)
}

// Identity returns the facts by which programs inside know the gateway.
func (g *Gateway) Identity() wire.Identity {
	return wire.Identity{Authority: g.authority, Names: g.names.Names()}
}

// SetLoans replaces the lent secrets, also for active requests: a request that was sent with a secret
// that is taken back ends.
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

// Policy returns the policy in force.
func (g *Gateway) Policy() *policy.Policy { return g.policy.Load() }

// review judges every flow again, and schedules itself for the end of the next rule.
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

// errCarrier ends the requests on a flow that ends. The reason is in the record of the flow: it may
// reveal where a name leads.
var errCarrier = errors.New("its connection may not go on by the rules of now")

// watchExpiry calls review when the next rule or lease ends.
func (g *Gateway) watchExpiry() { g.expiry.watchNext(g.policy.Load, g.review) }
