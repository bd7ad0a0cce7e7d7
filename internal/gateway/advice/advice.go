// Package advice tells programs inside the reasons of refusals, and the requests that are allowed. It answers for the
// gateway's own names, over HTTP.
package advice

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/wire"
)

// Name is the name at which the gateway itself answers why.
const Name = "policy.bothy"

// Handler answers requests to the gateway itself, by any of its names. Nothing in its answers is secret:
// a program inside could find all of it out by trying.
type Handler struct {
	Sandbox string
	Policy  func() *policy.Policy // the one in force
	// Afford turns a decision into a denial if its budget is used up.
	Afford   func(*policy.Decision)
	Refusals *Refusals
	// Mocked are the names whose servers are played. MockReason says why they may be reached.
	Mocked     []string
	MockReason string
	// Tasks answers about the tasks of the project; nil means that they are not shared.
	Tasks http.Handler
	// Loop carries out commands about the loop that works in the sandbox; nil means that none does.
	Loop func(args []string) (out, complaint string, code int)
}

// ServeHTTP answers for the name in the request's Host.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(r.Host, ":")
	if strings.EqualFold(strings.TrimSuffix(name, "."), wire.TasksHost) {
		if h.Tasks == nil {
			http.Error(w, "the tasks of the project are not shared with this sandbox", http.StatusNotFound)
			return
		}
		h.Tasks.ServeHTTP(w, r)
		return
	}
	if strings.EqualFold(strings.TrimSuffix(name, "."), wire.LoopHost) {
		h.serveLoop(w, r)
		return
	}
	h.advise(w, r)
}

// advise answers / and /check?url=URL&method=METHOD&rpc=CALL.
func (h *Handler) advise(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "only reading is possible here: rules are made outside the sandbox", http.StatusMethodNotAllowed)
	case r.URL.Path == "/":
		h.listRules(w, r)
	case r.URL.Path == "/check":
		h.checkCall(w, r)
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

// listRules answers with the rules in force and the last refusals.
func (h *Handler) listRules(w http.ResponseWriter, r *http.Request) {
	p := h.Policy()
	var rules []rule
	for _, x := range p.Rules() {
		if x.Live(time.Now()) {
			rules = append(rules, rule{x.Action.String(), x.String(), x.Source.String(), x.Why})
		}
	}
	refused := h.Refusals.List()
	if wantsJSON(r) {
		writeJSON(w, map[string]any{
			"sandbox": h.Sandbox, "default": p.Default().String(), "generation": p.Generation(), "rules": rules, "refused": refused,
			"mocked": h.Mocked,
		})
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "You are in the sandbox %q. Every connection is judged by rules that are made outside.\n"+
		"What no rule is about: %s. To ask about one thing: http://%s/check?url=URL&method=METHOD\n\nRules\n", h.Sandbox, p.Default(), Name)
	for _, x := range rules {
		fmt.Fprintf(w, "  %-5s %s (%s)\n", x.Action, x.Rule, x.Source)
	}
	if list := h.Mocked; len(list) > 0 {
		fmt.Fprintf(w, "\nAnswered by a mock, whatever the rules\n  %s\n", strings.Join(list, " "))
	}
	fmt.Fprintf(w, "\nRefused lately\n")
	for _, x := range refused {
		fmt.Fprintf(w, "  %s %s: %s\n", x.Time.UTC().Format(time.TimeOnly), x.subject(), x.Reason)
		if x.Command != "" {
			fmt.Fprintf(w, "    whoever runs this sandbox can allow it: %s\n", x.Command)
		}
	}
}

// checkCall answers whether a request would be allowed.
func (h *Handler) checkCall(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	q, err := policy.ParseCall(asked.Get("url"), asked.Get("method"), asked["rpc"], time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	x := h.Policy().Explain(q)
	h.Afford(&x.Decision)
	mocked := slices.Contains(h.Mocked, q.Name)
	if wantsJSON(r) {
		told := map[string]any{
			"target": x.Target, "allowed": x.Decision.Allowed(), "reason": x.Decision.Reason(),
			"command": x.Decision.Suggest().Command(h.Sandbox),
		}
		if mocked {
			told["allowed"], told["reason"], told["command"] = true, h.MockReason, ""
		}
		writeJSON(w, told)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if mocked {
		fmt.Fprintf(w, "allowed: %s: %s\n", x.Target, h.MockReason)
		return
	}
	fmt.Fprintln(w, strings.TrimRight(x.Text(h.Sandbox), "\n"))
}

func wantsJSON(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "json") }

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
