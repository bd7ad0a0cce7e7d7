package policy

import (
	"fmt"
	"strconv"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/internal/policy/gitrepo"
	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/internal/policy/override"
	"github.com/bothy-dev/bothy/internal/policy/rpccall"
	"github.com/bothy-dev/bothy/internal/policy/specialaddr"
)

// Reason explains the decision in a sentence without a full stop. It escapes text from
// inside the sandbox.
func (d *Decision) Reason() string {
	s := d.reason()
	if d.Rule != nil && d.Rule.Why != "" {
		s += " (" + d.Rule.Why + ")"
	}
	if d.ended != nil {
		s += fmt.Sprintf("; rule %q (%s) ended at %s", d.ended.Target, d.ended.Source, d.ended.Until.UTC().Format(time.RFC3339))
	}
	return s
}

func (d *Decision) reason() string {
	what := d.query.subject()
	switch d.Cause {
	case CauseRule:
		does := " denies "
		if d.Allowed() {
			does = " allows "
		}
		s := "rule " + strconv.Quote(d.Rule.String()) + " (" + d.Rule.Source.String() + ")" + does + what
		if r := d.query.Request; r != nil && !d.Allowed() && !d.Rule.HTTP.IsEmpty() {
			if why := r.otherwise(d.Rule); why != "" {
				s += ": " + why
			}
		}
		return s
	case CauseDefault:
		return "no rule denies " + what + ", and the default is allow"
	case CauseNoRule:
		if name, err := hostname.Clean(d.query.Name); err == nil && hostname.IsPrivate(name) {
			return "no rule allows " + what + ", a private name that a rule has to name"
		}
		return "no rule allows " + what
	case CauseRequest:
		return d.missReason(what)
	case CauseProject:
		return "the project's own allow list leaves out " + what
	case CauseSpecial:
		return d.specialReason(what)
	case CauseUpload:
		return d.usedUpReason(what)
	case CauseBody:
		return fmt.Sprintf("%s is allowed for some calls of JSON-RPC only, by rule %q (%s): its body has to be judged", what, d.missed, d.missed.Source)
	case CauseInspection:
		return what + " was let through unseen, and now every request has to be judged"
	}
	return d.faultReason(what)
}

// missReason explains the denial of a request to a host that is allowed.
func (d *Decision) missReason(what string) string {
	asked := "request"
	if d.query.Git != nil {
		asked = "command"
	}
	s := fmt.Sprintf("%s is allowed, but not this %s: %s; rule %q (%s) does not cover it",
		d.query.hostText(), asked, what, d.missed, d.missed.Source)
	if d.query.Request == nil {
		return s
	}
	if by, over := d.oversize(); over {
		return fmt.Sprintf("the body of %s holds more than rule %q (%s) allows", what, by, by.Source)
	}
	if why := d.query.Request.otherwise(d.missed); why != "" {
		s = why + "; " + s
	}
	return s
}

// oversize reports whether a request was denied only for the size of its body, and returns the rule that
// allows the most.
func (d *Decision) oversize() (*Rule, bool) {
	q := d.query
	if d.Cause != CauseRequest || d.policy == nil || q.Request == nil || q.Request.Body <= 0 {
		return nil, false
	}
	empty := *q.Request
	empty.Body, q.Request = 0, &empty
	small := d.policy.Decide(q)
	return small.Rule, small.Allowed() && small.Rule != nil && small.Rule.HTTP.MaxBody > 0
}

// otherwise explains why the server may treat a request as another one than its first line
// says, where a rule depends on that.
func (r *Request) otherwise(rule *Rule) string {
	c := &rule.HTTP
	_, fault := r.normalPath()
	path, method := override.Path(r.Header), override.Method(r.Header, r.Query, r.MethodInBody)
	switch {
	case fault != nil && r.Path == "*":
		return fault.Error()
	case fault != nil:
		return fault.Error() + ", and servers may read it as another"
	case path != "" && len(c.Paths)+len(c.Queries) > 0:
		return path + " asks for another path"
	case method != "" && len(c.Methods) > 0:
		return method + " asks for another method"
	}
	return ""
}

func (d *Decision) specialReason(what string) string {
	addr := d.query.Addr
	s := what + " is " + d.Special.What
	switch d.Special {
	case &specialaddr.Inner:
		return s + ", about which no rule decides"
	case &specialaddr.HostsOwn:
		return s + ", which only a rule for it opens"
	}
	if d.query.Name != "" {
		s = fmt.Sprintf("%s leads to %s, %s", d.query.hostText(), addr, d.Special.What)
	} else if specialaddr.Find(addr) != d.Special {
		s = what + " leads by translation to " + d.Special.What
	}
	switch d.Special.Kind {
	case specialaddr.Never:
		return s + ", which is never reached"
	case specialaddr.Metadata:
		return s + ", which only a rule for that very address reaches"
	}
	return s + ", which only a rule within that range reaches"
}

// faultReason is the reason for a question that could not be judged at all.
func (d *Decision) faultReason(what string) string {
	q := &d.query
	switch d.Cause {
	case CauseName:
		name, err := hostname.Clean(q.Name)
		if err != nil {
			return err.Error()
		}
		return name + " never leaves the sandbox"
	case CauseMethod:
		return "method " + ascii.Quote(q.Request.Method) + " is not let through"
	case CausePath:
		_, fault := q.Request.normalPath()
		return fault.Error()
	case CauseRepository:
		_, err := gitrepo.CleanName(q.Git.Repository)
		return err.Error()
	case CauseQueryString:
		return "query " + ascii.Quote(q.Request.Query) + " has a character that must be escaped"
	case CauseAuthority:
		return fmt.Sprintf("the request is for host %s, its connection for %s", ascii.Quote(q.Request.Host), q.hostText())
	case CauseUpgrade:
		return "an upgrade to " + ascii.Quote(q.Request.Upgrade) + " cannot be judged"
	case CauseWebSocket:
		return what + " would open a WebSocket, on which nothing can be judged; a rule has to say websocket: true"
	}
	return "the question cannot be understood"
}

// subject names the subject of the question.
func (q *Query) subject() string {
	if q.Git != nil {
		name, err := gitrepo.CleanName(q.Git.Repository)
		if err != nil {
			name = ascii.Quote(q.Git.Repository)
		}
		if q.Git.User != gitrepo.DefaultUser {
			name += " as " + ascii.Quote(q.Git.User)
		}
		return q.Git.Service + " " + q.hostText() + " " + name
	}
	if q.Request == nil {
		return q.hostText()
	}
	path, fault := q.Request.normalPath()
	if fault != nil {
		path = " path " + ascii.Quote(q.Request.Path)
	}
	if q.Request.Query != "" {
		path += "?…" // it may hold secrets
	}
	method := q.Request.Method
	if !IsToken(method) {
		method = ascii.Quote(method)
	}
	if len(q.Request.RPC) > 0 && rpccall.AreValid(q.Request.RPC) {
		path += " rpc " + rpccall.Text(q.Request.RPC)
	}
	return method + " " + q.hostText() + path
}

// hostText returns the name or address with its port, in the form of a rule.
func (q *Query) hostText() string {
	s := q.Name
	if s == "" {
		s = q.Addr.String()
		if q.Addr.Is6() {
			s = "[" + s + "]"
		}
	} else if name, err := hostname.Clean(s); err == nil {
		s = name
	} else {
		s = ascii.Quote(s)
	}
	if q.Port != 0 {
		s += ":" + strconv.Itoa(int(q.Port))
	}
	return s
}
