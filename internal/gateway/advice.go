package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// adviceName is where the inside may ask why: the gateway itself answers.
const adviceName = "policy.bothy"

// own answers what is asked of the gateway itself, by any of its names.
type own struct{ g *Gateway }

func (o own) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(r.Host, ":")
	if strings.EqualFold(strings.TrimSuffix(name, "."), wire.TasksHost) {
		if o.g.conf.Tasks == nil {
			http.Error(w, "the tasks of the project are not shared with this sandbox", http.StatusNotFound)
			return
		}
		o.g.conf.Tasks.ServeHTTP(w, r)
		return
	}
	if strings.EqualFold(strings.TrimSuffix(name, "."), wire.LoopHost) {
		o.loop(w, r)
		return
	}
	advice(o).ServeHTTP(w, r)
}

// advice tells the inside what is allowed, what was refused lately, and why.
// Nothing in it is secret: whoever asks could find all of it out by trying.
type advice struct{ g *Gateway }

// ServeHTTP answers / and /check?url=URL&method=METHOD&rpc=CALL.
func (a advice) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "only reading is possible here: rules are made outside the sandbox", http.StatusMethodNotAllowed)
	case r.URL.Path == "/":
		a.overview(w, r)
	case r.URL.Path == "/check":
		a.check(w, r)
	default:
		http.NotFound(w, r)
	}
}

// rule is one line of the overview.
type rule struct {
	Action string `json:"action"`
	Rule   string `json:"rule"`
	Source string `json:"source"`
	Why    string `json:"why,omitempty"`
}

func (a advice) overview(w http.ResponseWriter, r *http.Request) {
	p := a.g.policy.Load()
	var rules []rule
	for _, x := range p.Rules() {
		if x.Live(time.Now()) {
			rules = append(rules, rule{x.Action.String(), x.String(), x.Source.String(), x.Why})
		}
	}
	refused := a.g.refusals.list()
	if wantsJSON(r) {
		writeJSON(w, map[string]any{
			"sandbox": a.g.conf.Sandbox, "default": p.Default().String(), "generation": p.Generation(), "rules": rules, "refused": refused,
			"mocked": a.g.mockedNames(),
		})
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "You are in the sandbox %q. Every connection is judged by rules that are made outside.\n"+
		"What no rule is about: %s. To ask about one thing: http://%s/check?url=URL&method=METHOD\n\nRules\n", a.g.conf.Sandbox, p.Default(), adviceName)
	for _, x := range rules {
		fmt.Fprintf(w, "  %-5s %s (%s)\n", x.Action, x.Rule, x.Source)
	}
	if list := a.g.mockedNames(); len(list) > 0 {
		fmt.Fprintf(w, "\nAnswered by a mock, whatever the rules\n  %s\n", strings.Join(list, " "))
	}
	fmt.Fprintf(w, "\nRefused lately\n")
	for _, x := range refused {
		fmt.Fprintf(w, "  %s %s: %s\n", x.Time.UTC().Format(time.TimeOnly), x.what(), x.Reason)
		if x.Command != "" {
			fmt.Fprintf(w, "    whoever runs this sandbox can allow it: %s\n", x.Command)
		}
	}
}

func (a advice) check(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	q, err := policy.ParseCall(asked.Get("url"), asked.Get("method"), asked["rpc"], time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	x := a.g.policy.Load().Explain(q)
	a.g.afford(&x.Decision)
	mocked := a.g.isMocked(q.Name)
	if wantsJSON(r) {
		told := map[string]any{
			"target": x.Target, "allowed": x.Decision.Allowed(), "reason": x.Decision.Reason(),
			"command": x.Decision.Suggest().Command(a.g.conf.Sandbox),
		}
		if mocked {
			told["allowed"], told["reason"], told["command"] = true, mockReason, ""
		}
		writeJSON(w, told)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if mocked {
		fmt.Fprintf(w, "allowed: %s: %s\n", x.Target, mockReason)
		return
	}
	fmt.Fprintln(w, strings.TrimRight(x.Text(a.g.conf.Sandbox), "\n"))
}

func wantsJSON(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "json") }

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// refusals remembers the last things that were refused, each once.
type refusals struct {
	mu  sync.Mutex
	set []refused
}

// refused is one of them.
type refused struct {
	Time    time.Time `json:"time"`
	Name    string    `json:"name"` // or address
	Port    uint16    `json:"port,omitempty"`
	Method  string    `json:"method,omitempty"`
	Path    string    `json:"path,omitempty"`
	Reason  string    `json:"reason"`
	Command string    `json:"command,omitempty"`
}

func (r refused) what() string {
	s := r.Name
	if r.Port != 0 {
		s = fmt.Sprintf("%s:%d", s, r.Port)
	}
	if r.Method != "" {
		s = r.Method + " " + s + r.Path
	}
	return s
}

// maxRefusals is how many are remembered.
const maxRefusals = 20

// note remembers a record, if it is of a refusal, or of a failure that a command would mend.
func (l *refusals) note(n spec.NetworkRecord) {
	if n.Verdict != spec.VerdictDeny && (n.Verdict != spec.VerdictError || n.Suggest == "") {
		return
	}
	x := refused{
		Time: time.Now(), Name: n.Name, Port: n.Port, Method: n.Method, Path: n.Path, Reason: n.Reason, Command: n.Suggest,
	}
	if leadsAstray(&n) { // where a name leads is the host's own business
		x.Reason, x.Command = "it leads to an address that is closed to sandboxes", ""
	}
	if x.Name == "" {
		x.Name = n.Addr.String()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set = slices.DeleteFunc(l.set, func(o refused) bool { return o.what() == x.what() && o.Reason == x.Reason })
	if len(l.set) >= maxRefusals {
		l.set = l.set[1:]
	}
	l.set = append(l.set, x)
}

// leadsAstray tells whether a refusal is for where a name leads. Where one has led to until
// the rules changed is no less the host's business, but most reasons do not tell.
func leadsAstray(n *spec.NetworkRecord) bool {
	if n.Name == "" || !n.Addr.IsValid() {
		return false
	}
	target, _, _ := strings.Cut(n.Rule, " ")
	t, err := policy.ParseTarget(target)
	_, isRange := t.Prefix()
	return n.Event == spec.NetworkFlow && n.State == "" || err == nil && isRange || strings.Contains(n.Reason, n.Addr.Unmap().String())
}

// list gives them, the latest first.
func (l *refusals) list() []refused {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := slices.Clone(l.set)
	slices.Reverse(list)
	return list
}
