package flowplan

import (
	"fmt"
	"strings"
)

// Progress is the part of a condition's values that changes while a flow runs.
type Progress struct {
	Succeeded, Failed func() bool              // the values of success() and failure()
	Status            func(step string) string // of all times of a step together
}

// Rejects explains why a node is skipped whose needs have results: its condition is false. It is empty if
// the node is to run.
func (p *Plan) Rejects(n *Node, now Progress) (why string) {
	c, err := parseCond(n.Step.If)
	if err != nil {
		return "its condition cannot be read" // it was checked
	}
	if !c.callsFunction() && !now.Succeeded() {
		return "a step that it needs did not succeed"
	}
	if c == nil || c.isTrue(func(part *cond) string { return p.valueNow(n, part, now) }) {
		return ""
	}
	return "if: " + n.Step.If
}

// valueNow returns the value of a name or a function in a condition.
func (p *Plan) valueNow(n *Node, part *cond, now Progress) string {
	if part.op == "call" {
		switch part.text {
		case "success":
			return fmt.Sprint(now.Succeeded())
		case "failure":
			return fmt.Sprint(now.Failed())
		}
		return "true"
	}
	if name, value, _ := strings.Cut(part.text, "."); name == WordOutput {
		return now.Status(strings.TrimSuffix(value, ".status"))
	}
	return p.fixedValue(n, part)
}

// fixedValue returns the value of a name in a condition that is known when the flow begins.
func (p *Plan) fixedValue(n *Node, part *cond) string {
	name, value, _ := strings.Cut(part.text, ".")
	if name == WordInput {
		return p.Values[value]
	}
	return n.Values()[Word{name, value}]
}

// Never reports whether it is known when the flow begins that a node will be skipped.
func (p *Plan) Never(n *Node) bool {
	return !n.Step.Copy && p.Excludes(n) // the judge of a copy needs the copy
}

// Excludes reports whether the inputs and the node's own values already make its condition false.
func (p *Plan) Excludes(n *Node) bool {
	c, err := parseCond(n.Step.If)
	if err != nil || c == nil {
		return false
	}
	holds, sure := c.decided(func(part *cond) (string, bool) {
		if part.op == "call" || strings.HasPrefix(part.text, WordOutput+".") {
			return "", false
		}
		return p.fixedValue(n, part), true
	})
	return sure && !holds
}
