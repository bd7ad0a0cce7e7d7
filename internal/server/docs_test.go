package server

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

const modulePath = "github.com/bothy-dev/bothy/"

// docs has the comments of the fields of types, by package, type and field.
type docs map[string]map[string]map[string]string

// describe adds the comments of a type and its fields to a schema.
func (d docs) describe(t *testing.T, of reflect.Type, schema *jsonschema.Schema) {
	t.Helper()
	pkg, ours := strings.CutPrefix(of.PkgPath(), modulePath)
	if !ours {
		return
	}
	types := d.readPackage(t, pkg)
	schema.Description = types[of.Name()][""]
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := schema.Properties[name]
		if name == "" || p == nil {
			continue
		}
		if text := types[of.Name()][f.Name]; text != "" {
			p.Description = text
		}
	}
}

// readPackage reads the comments of a package.
func (d docs) readPackage(t *testing.T, pkg string) map[string]map[string]string {
	t.Helper()
	if d[pkg] != nil {
		return d[pkg]
	}
	d[pkg] = map[string]map[string]string{}
	files, err := filepath.Glob(filepath.Join("../..", pkg, "*.go"))
	must(t, err)
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		must(t, err)
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, sp := range gen.Specs {
				d.addType(pkg, gen, sp.(*ast.TypeSpec))
			}
		}
	}
	return d[pkg]
}

func (d docs) addType(pkg string, gen *ast.GenDecl, ts *ast.TypeSpec) {
	st, ok := ts.Type.(*ast.StructType)
	if !ok {
		return
	}
	fields := map[string]string{"": joinComments(gen.Doc, ts.Doc)}
	for _, f := range st.Fields.List {
		for _, name := range f.Names {
			fields[name.Name] = joinComments(f.Doc, f.Comment)
		}
	}
	d[pkg][ts.Name.Name] = fields
}

// joinComments returns the text of comments as one line.
func joinComments(groups ...*ast.CommentGroup) string {
	var parts []string
	for _, g := range groups {
		if g != nil {
			parts = append(parts, strings.Fields(g.Text())...)
		}
	}
	return strings.Join(parts, " ")
}
