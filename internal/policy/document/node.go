// Package document reads YAML and JSON strictly: unknown, duplicate, null or empty parts are errors that
// name their line.
package document

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/spec"
)

// Node is a part of a document without its syntax. YAML and JSON both become nodes, and one reader is
// strict about them: an unknown key, a duplicate key, null, and anything empty is an error. A policy
// that says less than its author thinks would turn an allow-list into allow-all.
type Node struct {
	Kind  Kind
	Text  string   // of a scalar
	Line  int      // its first line; 0 means unknown
	End   int      // its last line
	Keys  []string // of a map, beside items
	Items []*Node  // of a map or list
}

type Kind uint8

const (
	Null Kind = iota
	Text
	Number
	Bool
	List
	Map
)

func (k Kind) String() string {
	return [...]string{"nothing", "text", "a number", "true or false", "a list", "a map"}[k]
}

// Fail returns an error at a node's place.
func (n *Node) Fail(format string, args ...any) *spec.Error {
	e := spec.Errorf(spec.ErrUsage, format, args...)
	if n.Line > 0 {
		e.Op = "line " + strconv.Itoa(n.Line)
	}
	return e
}

// Locate puts a node's place before an error of another package.
func (n *Node) Locate(err error) error {
	if err == nil || n.Line == 0 {
		return err
	}
	return &spec.Error{Class: spec.ErrUsage, Op: "line " + strconv.Itoa(n.Line), Err: err}
}

// requireKind refuses a node of another kind, and an empty one.
func (n *Node) requireKind(key string, kind Kind) error {
	switch {
	case n.Kind != kind:
		return n.Fail("%s has to be %s, and is %s", key, kind, n.Kind)
	case n.IsEmpty():
		return n.Fail("%s is empty", key)
	}
	return nil
}

// IsEmpty reports whether a node is an empty list or map.
func (n *Node) IsEmpty() bool {
	return n.Kind == List && len(n.Items) == 0 || n.Kind == Map && len(n.Keys) == 0
}

// ReadMap calls read for each key of a map. Each key must be a known one.
func (n *Node) ReadMap(what string, known []string, read func(key string, v *Node) error) error {
	if err := n.requireKind(what, Map); err != nil {
		return err
	}
	for i, key := range n.Keys {
		switch {
		case !slices.Contains(known, key):
			return n.Items[i].Fail("%s has an unknown key %s", what, ascii.Quote(key)).
				WithHint("there are %s", strings.Join(known, ", "))
		case slices.Contains(n.Keys[:i], key):
			return n.Items[i].Fail("%s has the key %s twice", what, key)
		}
		if err := read(key, n.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// ReadList reads a list that is not empty.
func (n *Node) ReadList(key string, read func(v *Node) error) error {
	if err := n.requireKind(key, List); err != nil {
		return err
	}
	for _, v := range n.Items {
		if err := read(v); err != nil {
			return err
		}
	}
	return nil
}

// ReadText reads text. Empty text is accepted only where it has a meaning.
func (n *Node) ReadText(key string, into *string) error {
	if err := n.requireKind(key, Text); err != nil {
		return err
	}
	*into = n.Text
	return nil
}

func (n *Node) ReadTexts(key string, into *[]string) error {
	return n.ReadList(key, func(v *Node) error {
		var s string
		err := v.ReadText("an entry of "+key, &s)
		*into = append(*into, s)
		return err
	})
}

func (n *Node) ReadBool(key string, into *bool) error {
	if err := n.requireKind(key, Bool); err != nil {
		return err
	}
	*into = n.Text == "true"
	return nil
}

// ReadNumber reads a decimal number without a sign, leading zeros or separators.
func (n *Node) ReadNumber(key string, into *int64) error {
	v, err := strconv.ParseInt(n.Text, 10, 64)
	if n.Kind != Number || err != nil || strconv.FormatInt(v, 10) != n.Text || v < 0 {
		return n.Fail("%s is not a whole number", key)
	}
	*into = v
	return nil
}
