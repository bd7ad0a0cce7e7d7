package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// singles are functions that are called, and types that are instantiated, in one place only. So every
// way to a running sandbox goes through that place.
var singles = map[string]struct{ file, why string }{
	"internal/keeper.NetworkOptions": {"internal/keeper/network.go", "there is one place from which a sandbox gets its network, with the policy in force"},
	"internal/driver.Network":        {"cmd/bothy-keeper/network.go", "a card has a gateway at its other end"},
	"internal/gateway/netstack.Card": {"cmd/bothy-keeper/network.go", "a card has a gateway at its other end"},
	"internal/gateway.New":           {"cmd/bothy-keeper/network.go", "a gateway is one of a sandbox, made with its policy"},
	"internal/gateway/netstack.New":  {"internal/gateway/gateway.go", "what the inside sends ends in a gateway"},
}

func TestSingles(t *testing.T) {
	found := map[string][]string{}
	for _, p := range all(t) {
		if isSuite(p.short()) {
			continue
		}
		for _, name := range p.GoFiles {
			for symbol := range made(t, p, name) {
				if _, ok := singles[symbol]; ok {
					found[symbol] = append(found[symbol], p.short()+"/"+name)
				}
			}
		}
	}
	for symbol, s := range singles {
		if !slices.Equal(found[symbol], []string{s.file}) {
			t.Errorf("%s is called or made in %v, but may be in %s alone, once: %s", symbol, found[symbol], s.file, s.why)
		}
	}
}

// made yields the functions that a file calls and the types that it instantiates, of this module's
// packages and its own, qualified by package. It repeats them as often as the file uses them.
func made(t *testing.T, p goPackage, name string) func(yield func(string) bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string]string{}
	for _, imp := range file.Imports {
		to, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		as := path.Base(to)
		if imp.Name != nil {
			as = imp.Name.Name
		}
		if strings.HasPrefix(to, module+"/") {
			imports[as] = shorten(to)
		}
	}
	var list []string
	note := func(e ast.Expr) {
		switch x := e.(type) {
		case *ast.Ident:
			list = append(list, p.short()+"."+x.Name)
		case *ast.SelectorExpr:
			if of, ok := x.X.(*ast.Ident); ok && imports[of.Name] != "" {
				list = append(list, imports[of.Name]+"."+x.Sel.Name)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.CallExpr:
			note(x.Fun)
		case *ast.CompositeLit:
			note(x.Type)
		}
		return true
	})
	return slices.Values(list)
}
