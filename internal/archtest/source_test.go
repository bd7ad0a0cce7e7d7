package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strconv"
	"testing"
)

// source is a parsed file of the product.
type source struct {
	*ast.File
	pkg  goPackage
	name string // of the file, after its package: internal/cli/logs.go
}

// parsed are the sources, once a test has asked for them, with their positions.
var (
	parsed    []source
	positions = token.NewFileSet()
)

// eachFile calls do with the files of the product.
func eachFile(t *testing.T, do func(source)) {
	t.Helper()
	if parsed == nil {
		for _, p := range all(t) {
			if isSuite(p.short()) {
				continue
			}
			for _, name := range p.GoFiles {
				file, err := parser.ParseFile(positions, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
				if err != nil {
					t.Fatal(err)
				}
				parsed = append(parsed, source{file, p, p.short() + "/" + name})
			}
		}
	}
	for _, s := range parsed {
		do(s)
	}
}

// imports returns the paths of the packages that a file imports, by their names in it.
func (s source) imports(t *testing.T) map[string]string {
	t.Helper()
	of := map[string]string{}
	for _, imp := range s.Imports {
		to, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		as := path.Base(to)
		if imp.Name != nil {
			as = imp.Name.Name
		}
		of[as] = to
	}
	return of
}
