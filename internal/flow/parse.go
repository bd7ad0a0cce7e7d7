package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/bothy-dev/bothy/spec"
)

// Parse reads a flow. A name that ends in .md is a Markdown file of Looplia's, anything
// else YAML. What it does not understand is an error.
func Parse(name string, data []byte) (*Flow, error) {
	fail := func(err error) (*Flow, error) {
		return nil, (&spec.Error{Class: spec.ErrUsage, Op: "read the flow " + name, Err: err}).WithHint("docs/flows.md tells what a flow may say")
	}
	if len(data) > maxFile {
		return fail(fmt.Errorf("it is larger than %d KiB", maxFile>>10))
	}
	read := fromYAML
	if strings.HasSuffix(name, ".md") {
		read = fromMarkdown
	}
	f, err := read(data)
	if err == nil {
		err = f.Check()
	}
	if err != nil {
		return fail(err)
	}
	return f, nil
}

func fromYAML(data []byte) (*Flow, error) {
	f := &Flow{}
	return f, decode(data, f)
}

// decode reads one document of YAML, by the words of JSON.
func decode(data []byte, into any) (err error) {
	defer func() { // the parser's, on text from anybody
		if r := recover(); r != nil {
			err = fmt.Errorf("it is not YAML: %v", r)
		}
	}()
	if err := plainYAML(data); err != nil {
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
	strict := json.NewDecoder(bytes.NewReader(doc))
	strict.DisallowUnknownFields()
	return strict.Decode(into)
}

// Bounds of how deep a document may go: the parser keeps the path of every part of it. Of
// maps that lie in one another line by line the size bounds it.
const (
	maxBrackets = 2000
	maxIndent   = 128 // of an entry of a list, which takes two columns
)

// plainYAML refuses what makes much of little: names for parts that are repeated.
func plainYAML(data []byte) error {
	if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > maxBrackets {
		return errors.New("it has too many brackets")
	}
	tokens := lexer.Tokenize(string(data))
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			if t.Position.Column > maxIndent {
				return fmt.Errorf("line %d: it is nested too deeply", t.Position.Line)
			}
		}
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return fmt.Errorf("it is not YAML: %s", yaml.FormatError(err, false, true))
	}
	v := &plain{}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			ast.Walk(v, doc.Body)
		}
	}
	return v.err
}

// plain looks for names of parts.
type plain struct{ err error }

// Visit looks at a node.
func (p *plain) Visit(n ast.Node) ast.Visitor {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		p.err = fmt.Errorf("line %d: names for parts (& and *) are not understood here", n.GetToken().Position.Line)
	}
	if p.err != nil {
		return nil
	}
	return p
}
