// Package strictyaml reads YAML. Decode reads files that anybody may have written: one document, of
// bounded depth, without anchors and aliases (& and *), into structs with JSON tags. An unknown or
// repeated key is an error. DecodeOwn and Unmarshal read files that the user wrote. The caller bounds
// the size of a file.
package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/bothy-dev/bothy/spec"
)

// Decode reads one document.
func Decode(data []byte, into any) (err error) {
	defer recoverPanic(&err)
	file, err := checkSize(data)
	if err != nil {
		return err
	}
	doc, err := ToJSON(data)
	if err != nil {
		return err
	}
	if err := checkKeys(file, reflect.TypeOf(into)); err != nil {
		return err
	}
	if err = strictly(doc, into); err != nil {
		return withLine(file, reflect.TypeOf(into), err)
	}
	return nil
}

// DecodeOwn is Decode for a file that the user wrote: anchors are allowed, and the depth is not bounded.
func DecodeOwn(data []byte, into any) (err error) {
	defer recoverPanic(&err)
	doc, err := ToJSON(data)
	if err != nil {
		return err
	}
	if err := strictly(doc, into); err != nil {
		return locate(data, reflect.TypeOf(into), err)
	}
	return nil
}

// Unmarshal reads a file that the user wrote into a struct with tags for YAML. An unknown or repeated
// key is an error that shows the place. A file without a document changes nothing.
func Unmarshal(data []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(Unmarked(data)), yaml.Strict())
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return errors.New(yaml.FormatError(err, false, true))
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one document")
	}
	return nil
}

// LineOf returns the line of a part, by its YAMLPath; 0 if it does not exist.
func LineOf(data []byte, at string) int {
	path, err := yaml.PathString(at)
	if err != nil {
		return 0
	}
	node, err := path.ReadNode(bytes.NewReader(data))
	if err != nil || node == nil {
		return 0
	}
	return node.GetToken().Position.Line
}

// Unmarked returns a document without the byte order mark that some editors write at the start: the mark
// would change the first key.
func Unmarked(data []byte) []byte { return bytes.TrimPrefix(data, []byte("\ufeff")) }

// recoverPanic turns a panic of the parser into an error.
func recoverPanic(err *error) {
	if r := recover(); r != nil {
		*err = spec.Errorf(spec.ErrUsage, "it is not YAML: %v", r)
	}
}

// ToJSON converts the only document of a file.
func ToJSON(data []byte) ([]byte, error) {
	var v any
	docs := yaml.NewDecoder(bytes.NewReader(Unmarked(data)))
	switch err := docs.Decode(&v); {
	case errors.Is(err, io.EOF):
		return nil, spec.Errorf(spec.ErrUsage, "it is empty")
	case err != nil:
		return nil, fmt.Errorf("it is not YAML: %s", yaml.FormatError(err, false, true))
	}
	if err := docs.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, spec.Errorf(spec.ErrUsage, "there is more than one document")
	}
	return json.Marshal(v)
}

// strictly reads JSON and rejects unknown keys.
func strictly(doc []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// Bounds of the depth of a document: the parser keeps the path of every part of it. The size of the file
// bounds the depth of block maps that are nested line by line.
const (
	maxDepth  = 64  // of brackets
	maxIndent = 128 // of an entry of a list, which takes two columns
)

// checkSize rejects documents that expand to much more than their size: it allows no anchors and aliases.
func checkSize(data []byte) (*ast.File, error) {
	tokens, err := tokenize(data)
	if err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, fmt.Errorf("it is not YAML: %s", yaml.FormatError(err, false, true))
	}
	return file, checkAnchors(file)
}

// tokenize bounds the depth of the parser's input.
func tokenize(data []byte) (token.Tokens, error) {
	tokens, depth := lexer.Tokenize(string(Unmarked(data))), 0
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
			return nil, failAt(t.Position.Line, "it is nested too deeply")
		}
	}
	return tokens, nil
}

// checkAnchors returns an error if parts of a document have anchors.
func checkAnchors(file *ast.File) error {
	v := &names{}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			ast.Walk(v, doc.Body)
		}
	}
	return v.err
}

// names looks for anchors and aliases.
type names struct{ err error }

// Visit looks at a node.
func (p *names) Visit(n ast.Node) ast.Visitor {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		p.err = fmt.Errorf("line %d: names for parts (& and *) are not understood here", n.GetToken().Position.Line)
	}
	if p.err != nil {
		return nil
	}
	return p
}

// failAt returns an error at a line.
func failAt(line int, format string, args ...any) *spec.Error {
	e := spec.Errorf(spec.ErrUsage, format, args...)
	if line > 0 {
		e.Op = "line " + strconv.Itoa(line)
	}
	return e
}
