// Package strictyaml reads files in YAML that anybody may have written: one document, of
// bounded depth, without names for parts (& and *), into structs whose words are those
// of JSON. An unknown or repeated key is an error. How large a file may be is for who
// reads it.
package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Decode reads one document.
func Decode(data []byte, into any) (err error) {
	defer func() { // the parser's, on text from anybody
		if r := recover(); r != nil {
			err = fmt.Errorf("it is not YAML: %v", r)
		}
	}()
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors begin a file with it
	file, err := check(data)
	if err != nil {
		return err
	}
	var v any
	docs := yaml.NewDecoder(bytes.NewReader(data))
	if err := docs.Decode(&v); err != nil {
		return fmt.Errorf("it is not YAML: %s", yaml.FormatError(err, false, true))
	}
	if err := docs.Decode(new(any)); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one document")
	}
	doc, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := known(file, reflect.TypeOf(into)); err != nil {
		return err
	}
	if err = strictly(doc, into); err != nil {
		return where(file, reflect.TypeOf(into), err)
	}
	return nil
}

// strictly reads JSON in which every key means something.
func strictly(doc []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// Bounds of the depth of a document: the parser keeps the path of every part of it. For block maps
// nested line by line the size is the bound.
const (
	maxBrackets = 2000
	maxIndent   = 128 // of an entry of a list, which takes two columns
)

// check refuses documents that expand to much more than their size: it allows no anchors and
// aliases.
func check(data []byte) (*ast.File, error) {
	if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > maxBrackets {
		return nil, errors.New("it has too many brackets")
	}
	tokens := lexer.Tokenize(string(data))
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			if t.Position.Column > maxIndent {
				return nil, fmt.Errorf("line %d: it is nested too deeply", t.Position.Line)
			}
		}
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, fmt.Errorf("it is not YAML: %s", yaml.FormatError(err, false, true))
	}
	return file, named(file)
}

// named is the error that parts of a document have names.
func named(file *ast.File) error {
	v := &names{}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			ast.Walk(v, doc.Body)
		}
	}
	return v.err
}

// names looks for names of parts.
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
