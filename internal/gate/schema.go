package gate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Schema is a compiled JSON Schema (2020-12). It is our own because existing libraries cost more at init
// than all sandboxes together may. It knows the keywords that schemas of documents use. It refuses an
// unknown keyword, because a check that is silently skipped is not a check. A $ref must point into the
// same document: nothing is fetched.
type Schema struct {
	never bool // the schema false

	types       []string
	constant    *any
	enum        []any
	required    []string
	properties  map[string]*Schema
	patterns    []patterned
	additional  *Schema
	names       *Schema
	dependent   map[string][]string
	prefix      []*Schema
	items       *Schema
	contains    *Schema
	pattern     *regexp.Regexp
	all, any    []*Schema
	one         []*Schema
	not         *Schema
	when        *Schema
	then, other *Schema
	ref         *Schema

	bounds map[string]float64 // minimum, maxLength, minItems ... by their keywords
	unique bool
}

type patterned struct {
	name *regexp.Regexp
	is   *Schema
}

// annotations are keywords that do not check anything.
var annotations = []string{"$schema", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format"}

var typeNames = []string{"null", "boolean", "object", "array", "number", "integer", "string"}

// bounded reports whether the value of a keyword is a number, and whether it is a count.
func bounded(key string) (counts, ok bool) {
	switch key {
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return false, true
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		return true, true
	}
	return false, false
}

// Bounds of a schema.
const (
	maxSchema = 2000    // its subschemas
	maxPlace  = 4 << 10 // bytes of the path to a subschema; each has its own
)

// compiler reads one document.
type compiler struct {
	root any
	made map[string]*Schema // by their places in the document
	into map[*Schema][]*Schema
}

// CompileSchema compiles a schema that was decoded from JSON or YAML.
func CompileSchema(doc any) (*Schema, error) {
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	root, err := ReadJSON(text)
	if err != nil {
		return nil, err
	}
	c := &compiler{root: root, made: map[string]*Schema{}, into: map[*Schema][]*Schema{}}
	s, err := c.compile(root, "#")
	if err != nil {
		return nil, err
	}
	return s, c.checkEnds()
}

func flawAt(place, format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{place}, args...)...)
}

// compile reads the schema at a place, once.
func (c *compiler) compile(v any, place string) (*Schema, error) {
	if s := c.made[place]; s != nil {
		return s, nil
	}
	if len(c.made) >= maxSchema {
		return nil, errors.New("it is too large")
	}
	if len(place) > maxPlace {
		return nil, flawAt(cutText(place), "its path is too long")
	}
	s := &Schema{bounds: map[string]float64{}}
	c.made[place] = s
	switch v := v.(type) {
	case bool:
		s.never = !v
		return s, nil
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := c.keyword(s, key, v[key], place+"/"+escape(key)); err != nil {
				return nil, err
			}
		}
		return s, nil
	}
	return nil, flawAt(place, "it is not a schema")
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

func (c *compiler) keyword(s *Schema, key string, v any, place string) (err error) {
	if counts, ok := bounded(key); ok {
		return s.readBound(key, v, counts, place)
	}
	switch key {
	case "type":
		s.types, err = typesOf(v, place)
	case "const":
		s.constant = &v
	case "enum":
		var ok bool
		if s.enum, ok = v.([]any); !ok || len(s.enum) == 0 {
			err = flawAt(place, "it is not a list of values")
		}
	case "required":
		s.required, err = textsOf(v, place)
	case "dependentRequired":
		s.dependent, err = dependentOf(v, place)
	case "pattern":
		s.pattern, err = patternOf(v, place)
	case "uniqueItems":
		var ok bool
		if s.unique, ok = v.(bool); !ok {
			err = flawAt(place, "it is neither true nor false")
		}
	case "$ref":
		err = c.compileRef(s, v, place)
	default:
		err = c.applicator(s, key, v, place)
	}
	return err
}

// applicator reads a keyword that contains other schemas.
func (c *compiler) applicator(s *Schema, key string, v any, place string) (err error) {
	for name, to := range map[string]struct {
		at   **Schema
		same bool // it applies to the same value, not to a part of it
	}{
		"additionalProperties": {&s.additional, false}, "propertyNames": {&s.names, false}, "items": {&s.items, false}, "contains": {&s.contains, false},
		"not": {&s.not, true}, "if": {&s.when, true}, "then": {&s.then, true}, "else": {&s.other, true},
	} {
		if name == key {
			*to.at, err = c.compile(v, place)
			if to.same {
				c.into[s] = append(c.into[s], *to.at)
			}
			return err
		}
	}
	switch key {
	case "allOf", "anyOf", "oneOf":
		list, err := c.several(v, place)
		c.into[s] = append(c.into[s], list...)
		*map[string]*[]*Schema{"allOf": &s.all, "anyOf": &s.any, "oneOf": &s.one}[key] = list
		return err
	case "prefixItems":
		s.prefix, err = c.several(v, place)
	case "properties":
		s.properties, err = c.compileMap(v, place)
	case "patternProperties":
		list, err := c.compileMap(v, place)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(list)) {
			re, err := patternOf(name, place)
			if err != nil {
				return err
			}
			s.patterns = append(s.patterns, patterned{re, list[name]})
		}
	default:
		if !slices.Contains(annotations, key) {
			return flawAt(place, "this keyword is not understood here")
		}
	}
	return err
}

func (c *compiler) several(v any, place string) (list []*Schema, err error) {
	in, ok := v.([]any)
	if !ok || len(in) == 0 {
		return nil, flawAt(place, "it is not a list of schemas")
	}
	for i, v := range in {
		s, err := c.compile(v, place+"/"+strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

func (c *compiler) compileMap(v any, place string) (map[string]*Schema, error) {
	in, ok := v.(map[string]any)
	if !ok {
		return nil, flawAt(place, "it has no names with schemas")
	}
	out := map[string]*Schema{}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		s, err := c.compile(in[name], place+"/"+escape(name))
		if err != nil {
			return nil, err
		}
		out[name] = s
	}
	return out, nil
}

// compileRef compiles the target of a $ref.
func (c *compiler) compileRef(s *Schema, v any, place string) error {
	ref, _ := v.(string)
	if ref != "#" && !strings.HasPrefix(ref, "#/") {
		return flawAt(place, "it leads out of the document: only #/... is followed")
	}
	to, at := c.root, "#"
	for part := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(ref, "#"), "/"), "/") {
		if ref == "#" {
			break
		}
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch in := to.(type) {
		case map[string]any:
			to = in[name]
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil || n < 0 || n >= len(in) {
				return flawAt(place, "it has no %s", ref)
			}
			to = in[n]
		default:
			to = nil
		}
		at += "/" + part
	}
	if to == nil {
		return flawAt(place, "it has no %s", ref)
	}
	target, err := c.compile(to, at)
	s.ref = target
	c.into[s] = append(c.into[s], target)
	return err
}

// checkEnds refuses a schema that refers to itself for the same value: judging would never end.
func (c *compiler) checkEnds() error {
	state := map[*Schema]int{} // 1: in progress, 2: done
	var visit func(*Schema) bool
	visit = func(s *Schema) bool {
		if state[s] != 0 {
			return state[s] == 2
		}
		state[s] = 1
		for _, to := range c.into[s] {
			if !visit(to) {
				return false
			}
		}
		state[s] = 2
		return true
	}
	for _, s := range c.made {
		if !visit(s) {
			return errors.New("a $ref leads to itself without going into the document")
		}
	}
	return nil
}

func (s *Schema) readBound(key string, v any, counts bool, place string) error {
	n, ok := v.(float64)
	switch {
	case !ok:
		return flawAt(place, "it is not a number")
	case counts && (n < 0 || !isWhole(n)):
		return flawAt(place, "it is not a count")
	case key == "multipleOf" && (n <= 0 || !isWhole(n)):
		return flawAt(place, "only whole numbers are understood here")
	}
	s.bounds[key] = n
	return nil
}

func typesOf(v any, place string) ([]string, error) {
	if one, ok := v.(string); ok {
		v = []any{one}
	}
	list, err := textsOf(v, place)
	if err == nil && len(list) == 0 {
		err = flawAt(place, "no type is given")
	}
	for _, name := range list {
		if !slices.Contains(typeNames, name) {
			err = cmp.Or(err, flawAt(place, "the type %q is unknown", name))
		}
	}
	return list, err
}

func textsOf(v any, place string) (out []string, err error) {
	in, ok := v.([]any)
	if !ok {
		return nil, flawAt(place, "it is not a list of names")
	}
	for _, v := range in {
		name, ok := v.(string)
		if !ok {
			return nil, flawAt(place, "a name is not a text")
		}
		out = append(out, name)
	}
	return out, nil
}

func dependentOf(v any, place string) (map[string][]string, error) {
	in, ok := v.(map[string]any)
	if !ok {
		return nil, flawAt(place, "it has no names with lists of names")
	}
	out := map[string][]string{}
	var err error
	for name, list := range in {
		if out[name], err = textsOf(list, place+"/"+escape(name)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func patternOf(v any, place string) (*regexp.Regexp, error) {
	text, ok := v.(string)
	if !ok {
		return nil, flawAt(place, "it is not a regular expression")
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, flawAt(place, "%w", err)
	}
	return re, nil
}
