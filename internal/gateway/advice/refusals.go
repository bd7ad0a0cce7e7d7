package advice

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/spec"
)

// Refusals remembers the last refusals, each once. The zero Refusals is empty.
type Refusals struct {
	mu  sync.Mutex
	set []Refusal
}

// Refusal is a remembered refusal.
type Refusal struct {
	Time    time.Time `json:"time"`
	Name    string    `json:"name"` // or address
	Port    uint16    `json:"port,omitempty"`
	Method  string    `json:"method,omitempty"`
	Path    string    `json:"path,omitempty"`
	Reason  string    `json:"reason"`
	Command string    `json:"command,omitempty"`
}

func (r Refusal) subject() string {
	s := r.Name
	if r.Port != 0 {
		s = fmt.Sprintf("%s:%d", s, r.Port)
	}
	if r.Method != "" {
		s = r.Method + " " + s + r.Path
	}
	return s
}

// maxRefusals bounds the remembered refusals.
const maxRefusals = 20

// Note remembers a record of a refusal, or of a failure that a command would mend.
func (l *Refusals) Note(n spec.NetworkRecord) {
	if n.Verdict != spec.VerdictDeny && (n.Verdict != spec.VerdictError || n.Suggest == "") {
		return
	}
	x := Refusal{
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
	l.set = slices.DeleteFunc(l.set, func(o Refusal) bool { return o.subject() == x.subject() && o.Reason == x.Reason })
	if len(l.set) >= maxRefusals {
		l.set = l.set[1:]
	}
	l.set = append(l.set, x)
}

// leadsAstray reports whether a flow was refused because of the address that its name resolved to. The
// address to which a name led until the rules changed is the host's business, too, but most reasons do
// not contain it.
func leadsAstray(n *spec.NetworkRecord) bool {
	if n.Name == "" || !n.Addr.IsValid() {
		return false
	}
	text, _, _ := strings.Cut(n.Rule, " ")
	t, err := target.Parse(text)
	return n.Event == spec.NetworkFlow && n.State == "" || err == nil && t.Kind == target.Range || strings.Contains(n.Reason, n.Addr.Unmap().String())
}

// List returns the refusals, the latest first.
func (l *Refusals) List() []Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := slices.Clone(l.set)
	slices.Reverse(list)
	return list
}
