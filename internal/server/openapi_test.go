package server

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/bothy-dev/bothy/internal/document"
	"github.com/bothy-dev/bothy/spec"
)

var update = flag.Bool("update", false, "write openapi.json and the reference of the API anew")

// TestOpenAPI compares the OpenAPI document with the table of routes and its types. It writes the document if
// -update is given.
func TestOpenAPI(t *testing.T) {
	want := describeAPI(t)
	if *update {
		must(t, os.WriteFile("openapi.json", want, 0o644))
		return
	}
	if !bytes.Equal(openAPI, want) {
		t.Error("openapi.json differs from the routes and their types: run go generate ./internal/server")
	}
}

// schemas makes the schemas of types, each under a name of its own.
type schemas struct {
	t     *testing.T
	named map[string]*jsonschema.Schema
	types map[string]reflect.Type
	docs  docs
}

// nameOf returns the name of a type in the document.
func nameOf(t reflect.Type) string {
	name := t.Name()
	if pkg := t.PkgPath()[strings.LastIndex(t.PkgPath(), "/")+1:]; slices.Contains([]string{"doctor", "wire", "policy"}, pkg) {
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	return name
}

// refTo returns a reference to the schema of a type, which it makes first.
func (s *schemas) refTo(t reflect.Type) map[string]any {
	if t.Kind() != reflect.Struct {
		return toMap(s.t, s.schemaOf(t))
	}
	name := nameOf(t)
	if old, ok := s.types[name]; ok && old != t {
		s.t.Fatalf("%v and %v have the same name", old, t)
	}
	if s.named[name] == nil {
		s.types[name] = t
		s.named[name] = &jsonschema.Schema{}
		s.named[name] = s.schemaOf(t)
	}
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

var (
	textType = reflect.TypeFor[encoding.TextMarshaler]()
	jsonType = reflect.TypeFor[json.Marshaler]()
)

// schemaOf makes the schema of a type. Named structs within it become references.
func (s *schemas) schemaOf(t reflect.Type) *jsonschema.Schema {
	known := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		reflect.TypeFor[spec.Duration]():   {Type: "string", Description: "a time such as 90s or 1h30m"},
		reflect.TypeFor[json.RawMessage](): {},
	}
	s.knowTypes(t, t, known)
	shape := t
	if known[t] != nil && t.Kind() == reflect.Struct { // it contains values of its own type
		shape = withoutName(t)
	}
	schema, err := jsonschema.ForType(shape, &jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		s.t.Fatalf("%v: %v", t, err)
	}
	s.tidyNulls(schema)
	if t.Kind() == reflect.Struct {
		s.docs.describe(s.t, t, schema)
	}
	return schema
}

// knowTypes fills in the schemas of the types within a type.
func (s *schemas) knowTypes(root, t reflect.Type, known map[reflect.Type]*jsonschema.Schema) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		if t.Elem() == root && root.Name() != "" {
			known[root] = &jsonschema.Schema{Ref: "#/components/schemas/" + nameOf(root)}
		} else if known[t] == nil {
			s.knowTypes(root, t.Elem(), known)
		}
		return
	}
	if known[t] != nil {
		return
	}
	switch {
	case t.Implements(textType), reflect.PointerTo(t).Implements(textType):
		known[t] = &jsonschema.Schema{Type: "string"}
		return
	case t.Implements(jsonType), reflect.PointerTo(t).Implements(jsonType):
		s.t.Fatalf("%v writes its JSON itself: give its schema in schemaOf", t)
	}
	if t.Kind() != reflect.Struct {
		return
	}
	if t != root && t.Name() != "" {
		known[t] = &jsonschema.Schema{Ref: s.refTo(t)["$ref"].(string)}
		return
	}
	for f := range t.Fields() {
		switch {
		case f.Tag.Get("json") == "-", !f.IsExported() && !f.Anonymous:
		case f.Anonymous:
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			s.knowTypes(embedded, embedded, known)
		default:
			s.knowTypes(root, f.Type, known)
		}
	}
}

// withoutName returns a struct type with the same exported fields.
func withoutName(t reflect.Type) reflect.Type {
	var fields []reflect.StructField
	for f := range t.Fields() {
		if f.IsExported() {
			fields = append(fields, f)
		}
	}
	return reflect.StructOf(fields)
}

// tidyNulls makes null a value only where a document has it: of a pointer that is not left out when it is nil.
func (s *schemas) tidyNulls(schema *jsonschema.Schema) {
	for name, p := range schema.Properties {
		s.tidyNulls(p)
		if slices.Contains(p.Types, "array") || !slices.Contains(schema.Required, name) {
			p.Types = slices.DeleteFunc(p.Types, func(t string) bool { return t == "null" })
		}
		switch {
		case p.Ref != "" && len(p.Types) > 0:
			p.AnyOf, p.Ref, p.Types = []*jsonschema.Schema{{Ref: p.Ref}, {Type: "null"}}, "", nil
		case len(p.Types) == 1:
			p.Type, p.Types = p.Types[0], nil
		case len(p.Types) == 0:
			p.Types = nil
		}
	}
	if schema.Items != nil {
		s.tidyNulls(schema.Items)
	}
}

func toMap(t *testing.T, v any) map[string]any {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	var m map[string]any
	must(t, json.Unmarshal(b, &m))
	return m
}

// describeAPI returns the OpenAPI document.
func describeAPI(t *testing.T) []byte {
	t.Helper()
	s := newSchemas(t)
	paths := map[string]map[string]any{}
	for _, r := range Routes() {
		if paths[r.Pattern] == nil {
			paths[r.Pattern] = map[string]any{}
		}
		paths[r.Pattern][strings.ToLower(r.Method)] = s.operation(&r)
	}
	asked := newSchemas(t) // the server refuses unknown fields of these; those of answers may become more
	for _, r := range Routes() {
		if r.Request != nil {
			asked.refTo(reflect.TypeOf(r.Request))
		}
	}
	components := map[string]any{}
	for name, schema := range s.named {
		if asked.named[name] == nil {
			schema.AdditionalProperties = nil
		}
		components[name] = schema
	}
	doc := map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "Bothy", "version": "1", "license": map[string]any{"name": "Apache-2.0"},
			"description": "The API of bothy serve. See docs/guide/serve.md.",
		},
		"servers":    []any{map[string]any{"url": "http://localhost", "description": "over the unix socket, or the address of --listen"}},
		"security":   []any{map[string]any{"token": []any{}}, map[string]any{}},
		"paths":      paths,
		"components": map[string]any{"schemas": components, "securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}}},
	}
	b, err := document.Encode(doc)
	must(t, err)
	return b
}

func newSchemas(t *testing.T) *schemas {
	return &schemas{t: t, named: map[string]*jsonschema.Schema{}, types: map[string]reflect.Type{}, docs: docs{}}
}

var pathParam = regexp.MustCompile(`\{(\w+)\}`)

// paramDocs describe the parameters of paths.
var paramDocs = map[string]string{"name": "the name or the id of a sandbox"}

// operationName returns the name of the function that handles a route.
func operationName(r *Route) string {
	name := runtime.FuncForPC(reflect.ValueOf(r.handle).Pointer()).Name()
	return name[strings.LastIndex(name, ".")+1:]
}

func (s *schemas) operation(r *Route) map[string]any {
	op := map[string]any{"operationId": operationName(r), "summary": r.Summary}
	if r.Scope != "" {
		op["description"] = fmt.Sprintf("A token needs the scope %s.", r.Scope)
	}
	params := []any{}
	for _, m := range pathParam.FindAllStringSubmatch(r.Pattern, -1) {
		if paramDocs[m[1]] == "" {
			s.t.Errorf("the parameter %s has no description", m[1])
		}
		params = append(params, map[string]any{"name": m[1], "in": "path", "required": true, "description": paramDocs[m[1]], "schema": map[string]any{"type": "string"}})
	}
	for _, q := range r.Query {
		params = append(params, map[string]any{"name": q.Name, "in": "query", "description": q.Summary, "schema": map[string]any{"type": q.Type}})
	}
	op["parameters"] = params
	switch {
	case r.Request != nil:
		op["requestBody"] = map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": s.refTo(reflect.TypeOf(r.Request))}}}
	case r.Bytes != "":
		op["requestBody"] = map[string]any{"content": map[string]any{r.Bytes: map[string]any{}}}
	}
	responses := map[string]any{}
	for _, status := range r.statuses() {
		response := map[string]any{"description": "success"}
		content := map[string]any{}
		if r.Answer != nil {
			content["application/json"] = map[string]any{"schema": s.refTo(reflect.TypeOf(r.Answer))}
		}
		if r.Stream != "" {
			content[r.Stream] = map[string]any{"schema": map[string]any{"description": r.Part}}
		}
		if len(content) > 0 {
			response["content"] = content
		}
		responses[fmt.Sprint(status)] = response
	}
	failure := map[string]any{"application/json": map[string]any{"schema": s.refTo(reflect.TypeFor[document.Error]())}}
	for _, exit := range r.Failures {
		status := fmt.Sprint(document.StatusOf(exit))
		responses[status] = map[string]any{"description": "error: " + strings.Join(classesOf(document.StatusOf(exit), r.Failures), ", "), "content": failure}
	}
	responses["default"] = map[string]any{"description": "any other error", "content": failure}
	op["responses"] = responses
	return op
}

// classesOf returns the classes of errors with a status.
func classesOf(status int, exits []int) (names []string) {
	for _, x := range spec.Exits() {
		if slices.Contains(exits, x.Code) && document.StatusOf(x.Code) == status {
			names = append(names, x.Name)
		}
	}
	return names
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReference compares the page of the API with the table of routes. It writes the page if -update is given.
func TestReference(t *testing.T) {
	const path = "../../docs/reference/api.md"
	var b strings.Builder
	b.WriteString("# The API\n\n<!-- Made from the table of routes by `go generate ./internal/server`. -->\n\n" +
		"The calls of [bothy serve](../guide/serve.md). A token needs the scope. `GET /v1/openapi.json` has the form of each document.\n\n" +
		"| call | purpose | scope | statuses |\n|---|---|---|---|\n")
	for _, r := range Routes() {
		var statuses []string
		for _, status := range r.statuses() {
			statuses = append(statuses, fmt.Sprint(status))
		}
		for _, exit := range r.Failures {
			if status := fmt.Sprint(document.StatusOf(exit)); !slices.Contains(statuses, status) {
				statuses = append(statuses, status)
			}
		}
		purpose := r.Summary
		for _, q := range r.Query {
			purpose += fmt.Sprintf("; `?%s`: %s", q.Name, q.Summary)
		}
		if r.Stream != "" && r.Stream != "application/json" {
			purpose += fmt.Sprintf("; `%s`: %s", r.Stream, r.Part)
		}
		fmt.Fprintf(&b, "| `%s %s` | %s | %s | %s |\n", r.Method, r.Pattern, purpose, r.Scope, strings.Join(statuses, " "))
	}
	if *update {
		must(t, os.WriteFile(path, []byte(b.String()), 0o644))
		return
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != b.String() {
		t.Errorf("%s differs from the table of routes: run go generate ./internal/server: %v", path, err)
	}
}
