package document

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/spec"
)

// Only this file uses the YAML library.

// Bounds of a document. A project's file comes from untrusted sources, and the parser takes quadratic
// time in the worst case.
const (
	maxDocument = 1 << 20 // of the user's own
	maxForeign  = 64 << 10
	maxDepth    = 16
	maxIndent   = 64
)

// ParseYAML reads one document of maps, lists and plain scalars. The rest of YAML (anchors,
// tags, merge keys, block scalars, several documents) is refused: rules do not need it, and
// everything unusual has two readings.
func ParseYAML(data []byte) (*Node, error) {
	body, err := parseTree(data, maxDocument)
	if err != nil {
		return nil, err
	}
	return convert(body)
}

// ParseKey reads the value of one key of a document's map; nil if the key is missing. It
// ignores the values of other keys.
func ParseKey(data []byte, key string) (*Node, error) {
	body, err := parseTree(data, maxForeign)
	if err != nil {
		return nil, err
	}
	m, ok := body.(*ast.MappingNode)
	if !ok {
		return nil, spec.Errorf(spec.ErrUsage, "it is not a map")
	}
	for _, pair := range m.Values {
		k, ok := pair.Key.(*ast.StringNode)
		if !ok { // a merge key or an anchor may stand for the key that we look for
			return nil, nodeAt(pair.GetToken()).Fail("a key is not plain text")
		}
		if k.Value == key {
			return convert(pair.Value)
		}
	}
	return nil, nil
}

// Unmarked returns a document without the byte order mark that some editors write. With the mark, the
// first key would be another one.
func Unmarked(data []byte) []byte { return bytes.TrimPrefix(data, []byte("\ufeff")) }

func parseTree(data []byte, limit int) (body ast.Node, err error) {
	if len(data) > limit {
		return nil, spec.Errorf(spec.ErrUsage, "it is larger than %d bytes", limit)
	}
	defer func() { // a panic of the parser, on untrusted text
		if r := recover(); r != nil {
			body, err = nil, spec.Errorf(spec.ErrUsage, "it is not YAML: %v", r)
		}
	}()
	tokens := lexer.Tokenize(string(Unmarked(data)))
	if err := checkTokens(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, spec.Errorf(spec.ErrUsage, "it is not YAML: %s", ascii.Quote(first))
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, spec.Errorf(spec.ErrUsage, "it is empty, or more than one document")
	}
	return file.Docs[0].Body, nil
}

// checkTokens bounds the depth of the tokens that the parser gets.
func checkTokens(tokens token.Tokens) error {
	depth := 0
	for _, t := range tokens {
		nests := false
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			nests = true
		}
		if depth > maxDepth || nests && t.Position.Column > maxIndent {
			return nodeAt(t).Fail("it is nested too deeply")
		}
	}
	return nil
}

func nodeAt(t *token.Token) *Node { return &Node{Line: t.Position.Line, End: t.Position.Line} }

func convert(y ast.Node) (*Node, error) {
	if y == nil || y.GetToken() == nil {
		return &Node{}, nil
	}
	n := nodeAt(y.GetToken())
	switch v := y.(type) {
	case *ast.StringNode:
		n.Kind, n.Text = Text, v.Value
	case *ast.IntegerNode, *ast.FloatNode:
		n.Kind, n.Text = Number, y.GetToken().Value
	case *ast.BoolNode:
		n.Kind, n.Text = Bool, fmt.Sprint(v.Value)
	case *ast.NullNode:
	case *ast.SequenceNode:
		n.Kind = List
		for _, item := range v.Values {
			if err := n.addItem(item); err != nil {
				return nil, err
			}
		}
	case *ast.MappingNode:
		n.Kind = Map
		for _, pair := range v.Values {
			key, ok := pair.Key.(*ast.StringNode)
			if !ok {
				return nil, n.Fail("a key is not plain text")
			}
			n.Keys = append(n.Keys, key.Value)
			if err := n.addItem(pair.Value); err != nil {
				return nil, err
			}
		}
	case *ast.AliasNode:
		return nil, n.Fail("YAML takes the '*' for its own").WithHint(`write patterns in quotes: "*.example.com"`)
	default:
		return nil, n.Fail("this part of YAML is not read here")
	}
	return n, nil
}

func (n *Node) addItem(y ast.Node) error {
	item, err := convert(y)
	if err != nil {
		return err
	}
	n.Items = append(n.Items, item)
	n.End = max(n.End, item.End)
	return nil
}
