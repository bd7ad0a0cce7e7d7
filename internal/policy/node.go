package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/spec"
)

// node is a document after its syntax is gone. YAML and JSON both become nodes,
// and one reader is strict about them: an unknown key, a key twice, null, and
// anything empty is an error, because a policy that says less than its author
// thinks is how allow-lists become allow-all.
type node struct {
	kind  nodeKind
	text  string   // of a scalar
	line  int      // where it begins; 0 is unknown
	end   int      // where it ends
	keys  []string // of a map, beside items
	items []*node  // of a map or list
}

type nodeKind uint8

const (
	nodeNull nodeKind = iota
	nodeString
	nodeNumber
	nodeBool
	nodeList
	nodeMap
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "text", "a number", "true or false", "a list", "a map"}[k]
}

// fail is an error at a node's place.
func (n *node) fail(format string, args ...any) *spec.Error {
	e := spec.Errorf(spec.ErrUsage, format, args...)
	if n.line > 0 {
		e.Op = "line " + strconv.Itoa(n.line)
	}
	return e
}

// at puts a node's place before an error from elsewhere.
func (n *node) at(err error) error {
	if err == nil || n.line == 0 {
		return err
	}
	return &spec.Error{Class: spec.ErrUsage, Op: "line " + strconv.Itoa(n.line), Err: err}
}

// want refuses a node of another kind, and an empty one.
func (n *node) want(key string, kind nodeKind) error {
	switch {
	case n.kind != kind:
		return n.fail("%s has to be %s, and is %s", key, kind, n.kind)
	case n.empty():
		e := n.fail("%s is empty", key)
		if slices.Contains(conditionKeys, key) {
			return e.WithHint("without %s the rule is about everything at its host: leave it out if that is meant", key)
		}
		return e
	}
	return nil
}

// empty tells a list or map without anything in it.
func (n *node) empty() bool {
	return n.kind == nodeList && len(n.items) == 0 || n.kind == nodeMap && len(n.keys) == 0
}

// fields calls read for each key of a map, which must be among those known.
func (n *node) fields(what string, known []string, read func(key string, v *node) error) error {
	if err := n.want(what, nodeMap); err != nil {
		return err
	}
	for i, key := range n.keys {
		switch {
		case !slices.Contains(known, key):
			return n.items[i].fail("%s has an unknown key %s", what, ascii.Quote(key)).
				WithHint("there are %s", strings.Join(known, ", "))
		case slices.Contains(n.keys[:i], key):
			return n.items[i].fail("%s has the key %s twice", what, key)
		}
		if err := read(key, n.items[i]); err != nil {
			return err
		}
	}
	return nil
}

// list reads a list that is not empty.
func (n *node) list(key string, read func(v *node) error) error {
	if err := n.want(key, nodeList); err != nil {
		return err
	}
	for _, v := range n.items {
		if err := read(v); err != nil {
			return err
		}
	}
	return nil
}

// string reads text; empty only counts where it means something.
func (n *node) string(key string, into *string) error {
	if err := n.want(key, nodeString); err != nil {
		return err
	}
	*into = n.text
	return nil
}

func (n *node) strings(key string, into *[]string) error {
	return n.list(key, func(v *node) error {
		var s string
		err := v.string("an entry of "+key, &s)
		*into = append(*into, s)
		return err
	})
}

func (n *node) bool(key string, into *bool) error {
	if err := n.want(key, nodeBool); err != nil {
		return err
	}
	*into = n.text == "true"
	return nil
}

// number reads a decimal number without a sign, leading zeros or separators.
func (n *node) number(key string, into *int64) error {
	v, err := strconv.ParseInt(n.text, 10, 64)
	if n.kind != nodeNumber || err != nil || strconv.FormatInt(v, 10) != n.text || v < 0 {
		return n.fail("%s is not a whole number", key)
	}
	*into = v
	return nil
}
