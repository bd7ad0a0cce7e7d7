package strictyaml

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// part is a value of a document, with the Go type that it is read into.
type part struct {
	node ast.Node
	of   reflect.Type
}

// wholePart returns the part that is the entire document.
func wholePart(file *ast.File, into reflect.Type) part {
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return part{of: into}
	}
	return part{file.Docs[0].Body, into}
}

// checkKeys rejects unknown keys, and reports their position. The JSON reader would not reject them, and
// would treat COMMAND as command.
func checkKeys(file *ast.File, into reflect.Type) error {
	return wholePart(file, into).checkKeys()
}

func (p part) checkKeys() error {
	list, err := p.partsOf()
	for _, x := range list {
		if err == nil {
			err = x.checkKeys()
		}
	}
	return err
}

// withLine prefixes an error with the line of the smallest part that cannot be read.
func withLine(file *ast.File, into reflect.Type, err error) error {
	for at := wholePart(file, into); at.node != nil; {
		list, _ := at.partsOf()
		inner := part{}
		for _, x := range list {
			if xerr := x.checkReads(); xerr != nil {
				inner, err = x, xerr
				break
			}
		}
		if inner.node == nil {
			return fmt.Errorf("line %d: %w%s", at.node.GetToken().Position.Line, plainly(err), gluedHint(at.node))
		}
		at = inner
	}
	return plainly(err)
}

// gluedHint returns the hint for a text with a colon in it, such as a host and its port. Within brackets or
// braces the parser treats it as a key and its value. A real key needs a space after the colon.
func gluedHint(n ast.Node) string {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) == 1 {
		n = m.Values[0]
	}
	pair, ok := n.(*ast.MappingValueNode)
	if !ok {
		return ""
	}
	if _, ok := pair.Value.(ast.ScalarNode); !ok {
		return ""
	}
	key, value := pair.Key.GetToken(), pair.Value.GetToken()
	if value.Position.Offset != key.Position.Offset+len(key.Value)+len(":") {
		return ""
	}
	return fmt.Sprintf("; if it is one, write it in quotes: %q", key.Value+":"+value.Value)
}

// locate finds the mistake because of which a document could not be read into a value, and describes it
// in the words of the file. For a struct it also reports unknown keys.
func locate(data []byte, of reflect.Type, err error) (located error) {
	defer func() { // of the parser
		if recover() != nil {
			located = plainly(err)
		}
	}()
	file, perr := parser.ParseBytes(Unmarked(data), 0)
	if perr != nil {
		return plainly(err)
	}
	if err := checkKeys(file, of); err != nil {
		return err
	}
	if checkAnchors(file) != nil {
		return plainly(err)
	}
	return withLine(file, of, err)
}

// plainly describes the mistake in the words of the file.
func plainly(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s is wanted, not %s", kindOf(wrong.Type), wrong.Value)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// kindOf names the kind of value that a type needs.
func kindOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "text"
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "keys with values"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	}
	return "a number"
}

// checkReads returns an error if a part cannot be read.
func (p part) checkReads() error {
	var v any
	if err := yaml.NodeToValue(p.node, &v); err != nil {
		return err
	}
	doc, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return strictly(doc, reflect.New(p.of).Interface())
}

// partsOf returns the parts of a value whose types are known. It returns an error for an unknown key.
func (p part) partsOf() (list []part, err error) {
	of := p.of
	for of.Kind() == reflect.Pointer && !readsItself(of) {
		of = of.Elem()
	}
	if readsItself(of) {
		return nil, nil
	}
	switch n := p.node.(type) {
	case *ast.MappingValueNode:
		return fields([]*ast.MappingValueNode{n}, of)
	case *ast.MappingNode:
		return fields(n.Values, of)
	case *ast.SequenceNode:
		if of.Kind() != reflect.Slice {
			return nil, nil
		}
		for _, v := range n.Values {
			list = append(list, part{v, of.Elem()})
		}
	}
	return list, nil
}

func fields(values []*ast.MappingValueNode, of reflect.Type) (list []part, err error) {
	for _, v := range values {
		switch of.Kind() {
		case reflect.Map:
			list = append(list, part{v.Value, of.Elem()})
		case reflect.Struct:
			key := v.Key.GetToken()
			t := fieldOf(of, key.Value)
			if t == nil {
				return list, fmt.Errorf("line %d: unknown field %q", key.Position.Line, key.Value)
			}
			list = append(list, part{v.Value, t})
		}
	}
	return list, nil
}

// fieldOf returns the type of a key's value, or nil for an unknown key.
func fieldOf(of reflect.Type, key string) reflect.Type {
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == key && name != "-" {
			return f.Type
		}
	}
	return nil
}

// readsItself reports whether a type has its own unmarshaler.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
