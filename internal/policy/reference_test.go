package policy

import (
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/gitrepo"
	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/internal/policy/rpccall"
	"github.com/bothy-dev/bothy/internal/policy/specialaddr"
	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/internal/policy/urlpath"
)

// reference decides slowly and obviously: it looks at every rule for every question and shares no code
// with the tables. It takes the parts of a request (path, parameters, names) from the package; those
// have tests of their own.
type reference struct {
	inputs []Input // presets already expanded
}

func (ref *reference) rules(a Action, project bool) []Rule {
	var list []Rule
	for _, in := range ref.inputs {
		rules := in.Block.Deny
		if a == Allow {
			rules = in.Block.Allow
			if (in.Layer == LayerProject) != project {
				continue
			}
		}
		list = append(list, rules...)
	}
	return list
}

func (ref *reference) open() bool {
	open := false
	for _, in := range ref.inputs {
		if in.Block.Default == Deny {
			return false
		}
		open = open || in.Block.Default == Allow
	}
	return open
}

func (ref *reference) narrows() bool {
	return slices.ContainsFunc(ref.inputs, func(in Input) bool {
		return in.Layer == LayerProject && len(in.Block.Allow) > 0
	})
}

type answer struct {
	allowed bool
	must    bool
	limit   int64
	room    int64 // of the budget; MaxInt64 if there is none
}

var refused = answer{}

func (ref *reference) decide(q Query) answer {
	name := ""
	if q.Name != "" {
		n, err := hostname.Clean(q.Name)
		if err != nil || n == "localhost" || n == "bothy" || strings.HasSuffix(n, ".localhost") || strings.HasSuffix(n, ".bothy") {
			return refused
		}
		name = n
	}
	switch q.Stage {
	case StageLookup:
		// Any port: all ports in rules, and one that is in none.
		ports := []uint16{7}
		for _, in := range ref.inputs {
			for _, r := range append(slices.Clone(in.Block.Allow), in.Block.Deny...) {
				if r.Target.Port != 0 {
					ports = append(ports, r.Target.Port)
				}
			}
		}
		for _, port := range ports {
			if ref.flow(name, q.Addr, port, q.Now, nil).allowed {
				return answer{allowed: true, limit: NoLimit, room: math.MaxInt64}
			}
		}
		return refused
	case StageDial:
		if q.Git != nil && !refCommand(q.Git) {
			return refused
		}
		a := ref.asked(name, netip.Addr{}, q.Port, q.Now, nil, q.Git)
		if !a.allowed || !ref.mayDial(q.Addr, q.Port, q.Now, q.Git) {
			return refused
		}
		return a
	case StageRequest:
		r := q.Request
		if !IsToken(r.Method) || strings.EqualFold(r.Method, "connect") || r.Upgrade != "" && !strings.EqualFold(r.Upgrade, "websocket") || !plainQuery(r.Query) {
			return refused
		}
		if _, fault := refNormal(r); fault != nil && !fault.Ambiguous {
			return refused
		}
		if slices.Contains(r.RPC, "no call") {
			return refused
		}
		want := name
		if name == "" {
			want = q.Addr.String()
			if q.Addr.Is6() {
				want = "[" + want + "]"
			}
		}
		if r.Host != want && r.Host != want+":"+strconv.Itoa(int(q.Port)) {
			return refused
		}
	}
	if q.Stage == StageGit {
		if !refCommand(q.Git) {
			return refused
		}
	}
	return ref.asked(name, q.Addr, q.Port, q.Now, q.Request, q.Git)
}

func (ref *reference) flow(name string, addr netip.Addr, port uint16, now time.Time, req *Request) answer {
	return ref.asked(name, addr, port, now, req, nil)
}

// asked decides about a flow, or a request or command on it.
func (ref *reference) asked(name string, addr netip.Addr, port uint16, now time.Time, req *Request, git *GitRequest) answer {
	about := func(r Rule, a netip.Addr) bool {
		if r.Target.Port != 0 && r.Target.Port != port || !r.Until.IsZero() && !r.Until.After(now) {
			return false
		}
		if name != "" {
			return refName(r.Target.String(), name)
		}
		return refAddr(r.Target.String(), a)
	}
	if name == "" && (refAddr("198.18.0.0/15", addr) || refAddr("[fd62:6f74:6879::/64]", addr)) {
		return refused // an address of the sandbox itself
	}
	must := false
	for _, r := range ref.rules(Deny, false) {
		inner := name == "" && slices.ContainsFunc(refInside(addr), func(a netip.Addr) bool { return about(r, a) })
		if inner {
			return refused
		}
		if !about(r, addr) {
			continue
		}
		if refPlain(r) || req != nil && refDenies(r, req) || git != nil {
			return refused
		}
		must = true
	}

	named := func(r Rule) bool { // the rule names a target that the default does not reach
		if name != "" {
			return !refPrivate(name) || r.Target.String() != "**" && !strings.HasPrefix(r.Target.String(), "**:")
		}
		return refOpens(r, addr)
	}
	grants, whole, limit, room, ws := false, false, int64(0), int64(0), false
	lets := func(r Rule, body int64) { // among the rules with the largest budget, the largest body
		mine := r.MaxUpload
		if mine == 0 {
			mine = math.MaxInt64
		}
		if mine > room || mine == room && (body == NoLimit || limit != NoLimit && body > limit) {
			room, limit = mine, body
		}
	}
	for _, r := range ref.rules(Allow, false) {
		if !about(r, addr) || !named(r) {
			continue
		}
		if refPlain(r) {
			grants, whole, ws = true, true, ws || r.HTTP.WebSocket
			lets(r, NoLimit)
		} else if git != nil && !refGit(r, git) {
			continue
		} else if req == nil {
			if grants = true; git != nil {
				lets(r, NoLimit)
			}
		} else if refAdmits(r, req) {
			grants, ws = true, ws || r.HTTP.WebSocket
			if r.HTTP.MaxBody == 0 {
				lets(r, NoLimit)
			} else {
				lets(r, r.HTTP.MaxBody)
			}
		}
	}
	if req == nil {
		limit = NoLimit
		if !whole && git == nil { // each request has its own
			room = math.MaxInt64
		}
	}
	if ref.open() && (name != "" && !refPrivate(name) || name == "" && specialaddr.Find(addr) == nil) {
		grants, whole, limit, room = true, true, NoLimit, math.MaxInt64
	}
	if !grants {
		return refused
	}
	if name == "" {
		for _, v4 := range refInside(addr) {
			if specialaddr.Find(v4) != nil && !ref.opened(v4, port, now, nil) {
				return refused
			}
		}
	}
	if ref.narrows() {
		in, wholeIn, limitIn := false, false, int64(0)
		for _, r := range ref.rules(Allow, true) {
			switch {
			case !about(r, addr):
			case refPlain(r):
				in, wholeIn, limitIn = true, true, NoLimit
			case git != nil && !refGit(r, git):
			case req == nil:
				in, limitIn = true, NoLimit
			case refAdmits(r, req):
				in = true
				if r.HTTP.MaxBody == 0 {
					limitIn = NoLimit
				} else if limitIn != NoLimit {
					limitIn = max(limitIn, r.HTTP.MaxBody)
				}
			}
		}
		if !in {
			return refused
		}
		whole = whole && wholeIn
		if limit == NoLimit || limitIn != NoLimit && limitIn < limit {
			limit = limitIn
		}
	}
	must = must || !whole
	if req != nil && strings.EqualFold(req.Upgrade, "websocket") && must && !ws {
		return refused
	}
	return answer{true, must, limit, room}
}

func (ref *reference) mayDial(addr netip.Addr, port uint16, now time.Time, git *GitRequest) bool {
	for _, a := range append(refInside(addr), addr) {
		for _, r := range ref.rules(Deny, false) {
			if refAddr(r.Target.String(), a) && (r.Target.Port == 0 || r.Target.Port == port) && (r.Until.IsZero() || r.Until.After(now)) {
				return false
			}
		}
		if specialaddr.Find(a) != nil && !ref.opened(a, port, now, git) {
			return false
		}
	}
	return true
}

// opened reports whether a rule opens a special address: one without conditions, or one for the git
// command in question.
func (ref *reference) opened(a netip.Addr, port uint16, now time.Time, git *GitRequest) bool {
	return slices.ContainsFunc(ref.rules(Allow, false), func(r Rule) bool {
		return (refPlain(r) || git != nil && refGit(r, git)) && refAddr(r.Target.String(), a) && refOpens(r, a) &&
			(r.Target.Port == 0 || r.Target.Port == port) && (r.Until.IsZero() || r.Until.After(now))
	})
}

func refPlain(r Rule) bool {
	h := r.HTTP
	return len(h.RPC) == 0 && len(h.Methods) == 0 && (len(h.Paths) == 0 || slices.Contains(h.Paths, "/**")) && len(h.Queries) == 0 && len(h.Headers) == 0 && h.MaxBody == 0 && len(h.Git) == 0
}

// refOpens reports whether an allow rule may open a special address: then it must be in the same block.
func refOpens(r Rule, a netip.Addr) bool {
	b := specialaddr.Find(a)
	if b == nil {
		return true
	}
	return r.Target.Kind == target.Range && b.Kind != specialaddr.Never && r.Target.Prefix.Bits() >= b.Prefix.Bits()
}

func refPrivate(name string) bool {
	labels := strings.Split(name, ".")
	last := labels[len(labels)-1]
	return len(labels) == 1 || slices.Contains(hostname.PrivateZones, last) || len(labels) > 2 && strings.HasSuffix(name, ".home.arpa")
}

func refInside(a netip.Addr) []netip.Addr {
	if !a.IsValid() {
		return nil
	}
	list, n := specialaddr.EmbeddedPair(a)
	return list[:n]
}

// refName compares label by label, from the right.
func refName(target, name string) bool {
	if !strings.HasPrefix(target, "[") {
		target, _, _ = strings.Cut(target, ":")
	}
	want, have := strings.Split(target, "."), strings.Split(name, ".")
	if target == "**" {
		return true
	}
	if _, err := netip.ParseAddr(target); err == nil || strings.ContainsAny(target, "[/") {
		return false
	}
	for i, label := range slices.Backward(want) {
		j := len(have) - len(want) + i
		switch label {
		case "**":
			return j >= 0
		case "*":
			return j == 0
		}
		if j < 0 || have[j] != label {
			return false
		}
	}
	return len(want) == len(have)
}

func refAddr(target string, a netip.Addr) bool {
	if target == "**" || strings.HasPrefix(target, "**:") {
		return true
	}
	if rest, ok := strings.CutPrefix(target, "["); ok {
		target, _, _ = strings.Cut(rest, "]")
	} else {
		target, _, _ = strings.Cut(target, ":")
	}
	if p, err := netip.ParsePrefix(target); err == nil {
		return p.Contains(a)
	}
	b, err := netip.ParseAddr(target)
	return err == nil && b == a
}

func refAdmits(r Rule, req *Request) bool {
	h := r.HTTP
	path, fault := refNormal(req)
	if len(h.RPC) > 0 && len(h.Methods) == 0 {
		h.Methods = []string{"POST"}
	}
	switch {
	case len(h.Git) > 0:
		return false
	case len(h.RPC) > 0 && !refCalls(h, req):
		return false
	case len(h.Methods) > 0 && (!slices.Contains(h.Methods, req.Method) || refOverrides(req, "Method")):
		return false
	case len(h.Paths) > 0 && !slices.Contains(h.Paths, "/**") && (fault != nil || !slices.ContainsFunc(h.Paths, func(p string) bool { return refPath(p, path) })):
		return false
	case len(h.Queries) > 0 && (refOverrides(req, "Url") || !slices.Contains(h.Queries, req.Query)):
		return false
	case h.MaxBody > 0 && req.Body > h.MaxBody:
		return false
	case req.Upgrade != "" && !h.WebSocket:
		return false
	}
	for name, want := range h.Headers {
		var have []string
		for k, v := range req.Header {
			if strings.EqualFold(k, name) {
				have = append(have, v...)
			}
		}
		if len(have) != 1 || want != "*" && have[0] != want {
			return false
		}
	}
	return true
}

// refCalls looks for a call that no pattern allows. An unread body counts as such a call.
func refCalls(h Conditions, req *Request) bool {
	if len(h.Queries) == 0 && (strings.Contains(req.Query, "method=") || strings.Contains(req.Query, "%zz")) {
		return false
	}
	if req.Method != callMethod {
		return req.Body == 0 && req.RPC == nil
	}
	for _, call := range req.RPC {
		if !slices.ContainsFunc(h.RPC, func(p string) bool {
			end, open := strings.CutSuffix(p, "*")
			return p == call || p == "tools/call" && strings.HasPrefix(call, "tools/call ") ||
				open && call != rpccall.Answer && strings.HasPrefix(call, end)
		}) {
			return false
		}
	}
	return req.RPC != nil
}

func refDenies(r Rule, req *Request) bool {
	h := r.HTTP
	path, fault := refNormal(req)
	switch {
	case len(h.Methods) > 0 && !refOverrides(req, "Method") && !slices.Contains(h.Methods, strings.ToUpper(req.Method)):
		return false
	case len(h.Paths) > 0 && fault == nil && !slices.ContainsFunc(h.Paths, func(p string) bool {
		p, path := strings.ToLower(strings.TrimSuffix(p, "/")), strings.ToLower(strings.TrimSuffix(path, "/"))
		return refPath(p, path) || refPath(strings.TrimSuffix(p, "/**"), path) && strings.HasSuffix(p, "/**")
	}):
		return false
	}
	if len(h.Queries) > 0 {
		have, ok := parseQuery(req.Query)
		if ok && !refOverrides(req, "Url") && !slices.ContainsFunc(h.Queries, func(q string) bool {
			want, _ := parseQuery(q)
			return !slices.ContainsFunc(want, func(p param) bool { return !slices.Contains(have, p) })
		}) {
			return false
		}
	}
	for name, want := range h.Headers {
		if !slices.ContainsFunc(req.Header[name], func(v string) bool { return want == "*" || strings.Contains(v, want) }) {
			return false
		}
	}
	return true
}

// refOverrides reports whether a random request asks for another method or path.
func refOverrides(req *Request, what string) bool {
	if what == "Method" && req.MethodInBody {
		return true
	}
	for name := range req.Header {
		if strings.Contains(name, what) {
			return true
		}
	}
	return false
}

// refNormal treats a request that has no single path like a path that servers read
// differently.
func refNormal(req *Request) (string, *urlpath.Error) {
	if req.Path == "*" && req.Method == wholeMethod || refOverrides(req, "Url") && strings.HasPrefix(req.Path, "/") && !strings.Contains(req.Path, " ") {
		return "", &urlpath.Error{Ambiguous: true}
	}
	return urlpath.Normalize(req.Path)
}

func refCommand(git *GitRequest) bool {
	_, err := gitrepo.CleanName(git.Repository)
	return err == nil && (git.User == "git" || git.User == "me") && (git.Service == gitrepo.Fetch || git.Service == gitrepo.Push)
}

// refGit reports whether an allow rule lets a command of git through.
func refGit(r Rule, git *GitRequest) bool {
	name := strings.TrimSuffix(strings.TrimPrefix(git.Repository, "/"), ".git")
	user := r.HTTP.User
	if user == "" {
		user = "git"
	}
	return git.User == user && (git.Service == gitrepo.Fetch || r.HTTP.Push) && slices.ContainsFunc(r.HTTP.Git, func(p string) bool {
		return (name[0] != '~' || p[0] == '~') && refPath("/"+p, "/"+name)
	})
}

// refPath compares segment by segment, by recursion.
func refPath(pattern, path string) bool {
	if pattern == "/**" {
		return strings.HasPrefix(path, "/")
	}
	if pattern == "" || path == "" {
		return pattern == path
	}
	want, pattern := refSegment(pattern)
	have, path := refSegment(path)
	return (want == have || want == "*" && have != "") && refPath(pattern, path)
}

// refSegment cuts "/a/b" into "a" and "/b".
func refSegment(p string) (segment, rest string) {
	p = p[1:]
	if i := strings.IndexByte(p, '/'); i >= 0 {
		return p[:i], p[i:]
	}
	return p, ""
}
