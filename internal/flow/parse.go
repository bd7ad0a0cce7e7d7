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
	"github.com/goccy/go-yaml/parser"

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
func decode(data []byte, into any) error {
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

// maxBrackets bounds how deep brackets may go; indents are bounded by the size.
const maxBrackets = 2000

// plainYAML refuses what makes much of little: names for parts that are repeated.
func plainYAML(data []byte) error {
	if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > maxBrackets {
		return errors.New("it has too many brackets")
	}
	file, err := parser.ParseBytes(data, 0)
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
