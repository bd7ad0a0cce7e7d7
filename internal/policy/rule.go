package policy

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/internal/policy/gitrepo"
	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/spec"
)

// Action is the action of a rule, a default or a decision. The zero Action is unset, and
// lets nothing through.
type Action uint8

// The two actions.
const (
	Deny Action = iota + 1
	Allow
)

func (a Action) String() string {
	switch a {
	case Deny:
		return "deny"
	case Allow:
		return "allow"
	}
	return ""
}

// Rule is one line of a policy.
type Rule struct {
	Action Action
	Target target.Target
	HTTP   Conditions
	// Inspect asks to inspect HTTP although no condition needs it. Passthrough asks never to inspect,
	// for clients that pin certificates. Only allow rules have them.
	Inspect, Passthrough bool
	// MaxUpload bounds the bytes that an allow rule lets out while the sandbox exists: see
	// [Budget]. 0 means unlimited.
	MaxUpload int64
	// Until ends the rule: it counts while now is before it. Zero means forever.
	Until time.Time
	// Why is a note for people: one line, shown with decisions.
	Why string
	// Text is the target as it was written.
	Text string
	// Source is the origin of the rule. Compile sets it.
	Source Source
}

// ParseRule reads a rule without conditions. The caller sets the other fields afterwards, and calls
// Check.
func ParseRule(a Action, text string) (Rule, error) {
	t, err := target.Parse(text)
	if err != nil {
		return Rule{}, err
	}
	return Rule{Action: a, Target: t, Text: text}, nil
}

const maxWhy = 300

// Check refuses a rule that contradicts itself or could never hold.
func (r *Rule) Check() error {
	if err := r.checkParts(); err != nil {
		return &spec.Error{Class: spec.ErrUsage, Op: "rule " + ascii.Quote(r.Target.String()), Err: err}
	}
	return nil
}

func (r *Rule) checkParts() error {
	switch {
	case r.Action != Allow && r.Action != Deny:
		return spec.Errorf(spec.ErrUsage, "it neither allows nor denies")
	case r.Target.Kind == target.Nothing:
		return spec.Errorf(spec.ErrUsage, "it has no host")
	case r.Action == Deny && (r.Inspect || r.Passthrough):
		return spec.Errorf(spec.ErrUsage, "inspect and passthrough belong to rules that allow")
	case r.Action == Deny && r.MaxUpload != 0:
		return spec.Errorf(spec.ErrUsage, "max_upload belongs to rules that allow")
	case r.MaxUpload < 0:
		return spec.Errorf(spec.ErrUsage, "max_upload is negative")
	case r.Passthrough && (r.Inspect || r.HTTP.WebSocket || !r.HTTP.IsEmpty()):
		return spec.Errorf(spec.ErrUsage, "passthrough and HTTP conditions exclude each other").
			WithHint("bothy does not look into traffic that passes through")
	case !utf8.ValidString(r.Why) || len(r.Why) > maxWhy || strings.ContainsFunc(r.Why, notPrintable):
		return spec.Errorf(spec.ErrUsage, "why is not one short line of text")
	}
	if err := r.checkGit(); err != nil {
		return err
	}
	return r.HTTP.checkFor(r.Action)
}

// notPrintable reports whether notes must not contain a character, because it could move a terminal's
// cursor or turn its text. A project's notes are shown, too.
func notPrintable(c rune) bool { return c == utf8.RuneError || !unicode.IsPrint(c) }

// Live reports whether the rule counts at a time.
func (r *Rule) Live(now time.Time) bool { return r.Until.IsZero() || now.Before(r.Until) }

// Outlives reports whether r counts at least as long as o.
func (r *Rule) Outlives(o *Rule) bool {
	return r.Until.IsZero() || !o.Until.IsZero() && !r.Until.Before(o.Until)
}

// ID identifies a rule within its layer. It depends only on the meaning of the rule, so the same rule
// has the same ID everywhere. The note, the expiry and the budget do not change it.
func (r *Rule) ID() string {
	h := fnv.New64a()
	h.Write([]byte(r.Key()))
	return fmt.Sprintf("%012x", h.Sum64()>>16)
}

// HasRule reports whether a list has the same rule, by its ID.
func HasRule(list []Rule, r *Rule) bool {
	id := r.ID()
	return slices.ContainsFunc(list, func(o Rule) bool { return o.ID() == id })
}

// Key returns everything that distinguishes a rule from others, in one unambiguous line.
func (r *Rule) Key() string {
	b := make([]byte, 0, 128)
	b = append(append(append(b, r.Action.String()...), ' '), r.Target.String()...)
	list := func(name string, list []string) {
		if len(list) == 0 {
			return
		}
		b = append(append(b, ' '), name...)
		for _, s := range slices.Sorted(slices.Values(list)) {
			b = strconv.AppendQuote(append(b, ' '), s)
		}
	}
	list("methods", r.HTTP.Methods)
	list("paths", r.HTTP.Paths)
	list("query", r.HTTP.Queries)
	list("git", r.HTTP.Git)
	if u := r.HTTP.User; u != "" && u != gitrepo.DefaultUser {
		list("user", []string{u})
	}
	for _, name := range slices.Sorted(maps.Keys(r.HTTP.Headers)) {
		list(name+":", []string{r.HTTP.Headers[name]})
	}
	list("rpc", r.HTTP.RPC)
	if r.HTTP.MaxBody > 0 {
		b = strconv.AppendInt(append(b, " max_body "...), r.HTTP.MaxBody, 10)
	}
	for _, m := range []struct {
		on   bool
		name string
	}{{r.HTTP.Push, " push"}, {r.HTTP.WebSocket, " websocket"}, {r.Inspect, " inspect"}, {r.Passthrough, " passthrough"}} {
		if m.on {
			b = append(b, m.name...)
		}
	}
	return string(b)
}

// String returns the rule for people: target, methods, paths, repositories, marks, expiry.
func (r *Rule) String() string {
	parts := append(make([]string, 0, 8), r.Target.String())
	if len(r.HTTP.Methods) > 0 {
		parts = append(parts, strings.Join(r.HTTP.Methods, ","))
	}
	parts = append(parts, r.HTTP.Paths...)
	for _, q := range r.HTTP.Queries {
		parts = append(parts, "?"+q)
	}
	parts = append(parts, r.HTTP.gitWords()...)
	if len(r.HTTP.Headers) > 0 { // every request that passes is logged with its rule
		for _, name := range slices.Sorted(maps.Keys(r.HTTP.Headers)) {
			parts = append(parts, name+": "+r.HTTP.Headers[name])
		}
	}
	if len(r.HTTP.RPC) > 0 {
		parts = append(parts, "rpc "+strings.Join(r.HTTP.RPC, ", "))
	}
	if r.HTTP.MaxBody > 0 {
		parts = append(parts, fmt.Sprintf("body up to %d bytes", r.HTTP.MaxBody))
	}
	if r.HTTP.WebSocket {
		parts = append(parts, "websocket")
	}
	if r.Inspect {
		parts = append(parts, "inspect")
	}
	if r.Passthrough {
		parts = append(parts, "passthrough")
	}
	if r.MaxUpload > 0 {
		parts = append(parts, "upload up to "+sizeText(r.MaxUpload)+" in all")
	}
	if !r.Until.IsZero() {
		parts = append(parts, "until "+r.Until.UTC().Format(time.RFC3339))
	}
	return strings.Join(parts, " ")
}
