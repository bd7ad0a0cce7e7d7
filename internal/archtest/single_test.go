package archtest

import (
	"go/ast"
	"slices"
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
	eachFile(t, func(s source) {
		for _, symbol := range s.made(t) {
			if _, ok := singles[symbol]; ok {
				found[symbol] = append(found[symbol], s.name)
			}
		}
	})
	for symbol, s := range singles {
		if !slices.Equal(found[symbol], []string{s.file}) {
			t.Errorf("%s is called or made in %v, but may be in %s alone, once: %s", symbol, found[symbol], s.file, s.why)
		}
	}
}

// made returns the functions that a file calls and the types that it instantiates, of this module's
// packages and its own, qualified by package. It repeats them as often as the file uses them.
func (s source) made(t *testing.T) (list []string) {
	t.Helper()
	imports := s.imports(t)
	note := func(e ast.Expr) {
		switch x := e.(type) {
		case *ast.Ident:
			list = append(list, s.pkg.short()+"."+x.Name)
		case *ast.SelectorExpr:
			if of, ok := x.X.(*ast.Ident); ok && strings.HasPrefix(imports[of.Name], module+"/") {
				list = append(list, shorten(imports[of.Name])+"."+x.Sel.Name)
			}
		}
	}
	ast.Inspect(s.File, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.CallExpr:
			note(x.Fun)
		case *ast.CompositeLit:
			note(x.Type)
		}
		return true
	})
	return list
}
