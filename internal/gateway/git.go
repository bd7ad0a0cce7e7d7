package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/advice"
	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/internal/gateway/gitssh"
	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/gateway/sshagent"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/hostproxy"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/gitrepo"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// maxGits bounds the connections that are inspected as SSH.
const maxGits = 32

// heldBySSH bounds the memory of all of them, including conversations that never end; see stuck.
const heldBySSH = held.Most / 2

// serveGit lets git inside speak with a server over SSH.
func (g *Gateway) serveGit(ctx context.Context, inside relay.Conn, f *flow, r *spec.NetworkRecord) error {
	if g.gits.Add(1) > maxGits {
		g.gits.Add(-1)
		inside.Reset()
		return fmt.Errorf("%d connections of SSH are looked into already", maxGits)
	}
	near, err := watchConn(inside, g.ssh)
	if err != nil {
		g.gits.Add(-1)
		inside.Reset()
		return noRoomForSSH()
	}
	r.Protocol = spec.ProtocolSSH
	f.markSeen()
	s := f.asJudged()
	c := &gitCommand{g: g, f: f, r: r, name: s.Name, port: s.Port, first: *r}
	if c.name == "" {
		c.name = s.Addr.String()
	}
	server := &gitssh.Server{
		Name: c.name, Port: c.port, Key: g.sshKey, Counts: &f.counts,
		Ask: c.judgeCommand, Refused: c.refused, Reach: c.reachServer, Agent: g.agents.dialLogins, Signed: c.signed,
		Known: func() (*sshagent.Known, error) { return sshagent.ReadKnown(g.conf.KnownHosts) },
	}
	done := make(chan error, 1)
	go func() {
		err := server.Serve(ctx, near)
		if near.isFull() || c.server != nil && c.server.isFull() {
			err = noRoomForSSH()
		}
		done <- err
		near.endWithin(stuck)
		if c.server != nil {
			c.server.endWithin(stuck)
		}
		g.gits.Add(-1)
	}()
	return awaitResult(ctx, done, stuck)
}

// noRoomForSSH refuses a connection. Conversations that never end hold their bytes until the
// sandbox is stopped.
func noRoomForSSH() error { return fmt.Errorf("%w, or start the sandbox again", held.ErrFull) }

// gitCommand is the one command that may pass on a connection.
type gitCommand struct {
	g     *Gateway
	f     *flow
	r     *spec.NetworkRecord // of the flow
	first spec.NetworkRecord  // the same, as it began
	name  string              // or address
	port  uint16

	began  time.Time
	server *billed // set once it is reached
	fault  error   // why the server was not reached, as the log says it
}

// record begins the record of a request.
func (c *gitCommand) record(what, repository string) spec.NetworkRecord {
	s := c.f.asJudged()
	return spec.NetworkRecord{
		Event: spec.NetworkRequest, Name: s.Name, Addr: s.Addr, Port: s.Port, Protocol: spec.ProtocolSSH,
		Method: what, Path: repository, Generation: c.first.Generation,
	}
}

// refused records a request of SSH that git does not need.
func (c *gitCommand) refused(what string) {
	r := c.record(what, "")
	r.Verdict, r.Rule, r.Source = spec.VerdictDeny, c.first.Rule, c.first.Source
	r.Reason = "only git fetches and pushes over SSH here"
	c.g.journal.record(r)
}

// judgeCommand judges a command.
func (c *gitCommand) judgeCommand(cmd gitssh.Command) (func(error) error, error) {
	c.began = time.Now()
	c.g.conf.CatchUp()
	asked := &policy.GitRequest{Service: cmd.Service, Repository: cmd.Repository, User: cmd.User}
	d := c.g.judge.judgeGit(c.f.asJudged(), asked)
	c.g.uploads.afford(&d)
	r := c.g.journal.decided(c.record(cmd.Service, pathOf(cmd.Repository)), &d)
	if cmd.User != gitrepo.DefaultUser {
		r.User = cmd.User
	}
	if !d.Allowed() {
		c.g.journal.record(r)
		s := d.Suggest()
		return nil, toldInside(d.Reason(), s.Command(c.g.conf.Sandbox), s.Note)
	}
	if err := c.beginCommand(asked, d.Budget, &r); err != nil {
		r.Verdict, r.Reason = spec.VerdictDeny, err.Error()
		c.g.journal.record(r)
		return nil, toldInside(r.Reason, r.Suggest, "")
	}
	return func(err error) error { return c.recordEnd(r, err) }, nil
}

// pathOf returns a repository in the form of records and URLs.
func pathOf(repository string) string {
	name, err := gitrepo.CleanName(repository)
	switch {
	case err != nil:
		return repository
	case name[0] == '~':
		return name
	}
	return "/" + name
}

// beginCommand makes the flow subject to the rules for its command from now on, and to the lease by
// which it may log in.
func (c *gitCommand) beginCommand(asked *policy.GitRequest, b *policy.Budget, r *spec.NetworkRecord) error {
	l := c.g.agents.loanFor(spec.PlaceAgent)
	if l == nil {
		r.Suggest = policy.Suggestion{Args: []string{"run", "--name", c.g.conf.Sandbox, "--lend", "ssh", "--", "true"}}.Command("")
		return errors.New("no key is lent to log in with: the host's SSH agent is not lent to the sandbox")
	}
	c.f.noteCommand(asked, l.ID, c.g.uploads.meterFor(b))
	if err := c.g.judge.mayFlow(c.f); err != nil { // later changes of rules find the flow
		c.f.cutOff(err)
		return err
	}
	return c.g.tracks.opened(c.f, c.first)
}

// recordEnd records how a command ended, and returns the error that the inside is told.
func (c *gitCommand) recordEnd(r spec.NetworkRecord, err error) error {
	said := err
	r.Addr, r.Duration = c.f.asJudged().Addr, time.Since(c.began).Milliseconds()
	r.Up, r.Down = c.f.counts.Up.Load(), c.f.counts.Down.Load()
	switch {
	case c.fault != nil:
		err = c.fault
	case err != nil && c.server != nil && c.server.cut.Load() != nil:
		err = c.g.uploads.spentError(c.f, *c.server.cut.Load())
		said = err
		if d, ok := errors.AsType[*policy.Denied](err); ok {
			said = toldInside(d.Reason(), d.Suggest().Command(c.g.conf.Sandbox), "")
		}
	}
	c.g.tracks.conclude(&r, c.f.endReason(), err)
	c.g.journal.record(r)
	return said
}

// reachServer dials the server. The inside is not told where its name leads.
func (c *gitCommand) reachServer(ctx context.Context) (net.Conn, error) {
	out, err := c.g.outbound.reached(ctx, c.f, c.r)
	if err == nil {
		far, full := watchConn(countedTo(out, c.f.gitMeter()), c.g.ssh)
		if c.server = (&billed{watchedSSH: far}); full == nil {
			return c.server, nil
		}
		err = noRoomForSSH()
	}
	c.fault = err
	if _, ok := errors.AsType[*dial.Refused](err); ok {
		return nil, fmt.Errorf("%s leads to an address that is closed to sandboxes", c.name)
	}
	if by, ok := errors.AsType[*hostproxy.Error](err); ok {
		return nil, fmt.Errorf("%s cannot be reached: %s", c.name, by.Told())
	}
	return nil, fmt.Errorf("%s cannot be reached", c.name)
}

// signed records that the agent was asked to log in.
func (c *gitCommand) signed(l gitssh.Login) {
	c.g.agents.recordUse(sshagent.Use{Server: sshagent.Server{Name: c.name, Port: c.port}, User: l.User, Key: l.Key, Err: l.Err})
}

// toldInside returns the text for a person inside.
func toldInside(reason, command, note string) error {
	s := reason + "."
	if command != "" {
		s += "\nWhoever runs this sandbox can allow it: " + command
	}
	if note != "" {
		s += "\nNote: " + note
	}
	return errors.New(s + "\nMore: http://" + advice.Name + "/")
}

// noteCommand notes the active command, the lease by which it logs in, and the meter that counts its
// bytes.
func (f *flow) noteCommand(asked *policy.GitRequest, lease string, m *uploadlimit.Meter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subject.Git, f.lease, f.gits = asked, lease, m
}

// mayLogIn returns an error unless the agent by which a flow logged in is still lent.
func (h *agents) mayLogIn(f *flow) error {
	f.mu.Lock()
	lease := f.lease
	f.mu.Unlock()
	list := h.loans.Load()
	if lease == "" || list != nil && slices.ContainsFunc(*list, func(l wire.Loan) bool { return l.ID == lease && isAgentLent(&l) }) {
		return nil
	}
	return errors.New("the host's SSH agent is not lent any more")
}
