package archtest

import (
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
)

// TestNoAgentByName checks that agents are described only in their descriptions: no string of the code
// contains the name of an agent or of its program, except where namedBy allows it and in the help text
// of a command.
func TestNoAgentByName(t *testing.T) {
	names := namesOfAgents(t)
	used := map[string]bool{}
	eachFile(t, func(s source) {
		for _, lit := range stringsBut(s.File, help(s.File)) {
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			found := names.FindString(text)
			if found == "" {
				continue
			}
			if by := slices.IndexFunc(admitted(), func(tree string) bool { return under(s.name, tree) }); by >= 0 {
				used[admitted()[by]] = true
				continue
			}
			t.Errorf("%s:%d says %q: move knowledge about an agent to its description, see namedBy", s.name, positions.Position(lit.Pos()).Line, found)
		}
	})
	for _, tree := range admitted() {
		if !used[tree] {
			t.Errorf("%s is in namedBy, and names no agent", tree)
		}
	}
}

func admitted() []string { return slices.Sorted(maps.Keys(namedBy)) }

// namesOfAgents matches the names of all agents that come with Bothy, as whole words.
func namesOfAgents(t *testing.T) *regexp.Regexp {
	t.Helper()
	catalog := agent.NewCatalog("")
	list, err := catalog.Names()
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, name := range list {
		a, err := catalog.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if !a.Runtime {
			words = append(words, a.Name, regexp.QuoteMeta(a.Program))
			words = append(words, a.Aliases...)
		}
	}
	if len(words) < 12 {
		t.Fatalf("only these are known: %v", words)
	}
	return regexp.MustCompile(`(?i)(?:^|[^a-z])(?:` + strings.Join(words, "|") + `)(?:[^a-z]|$)`)
}

// stringsBut returns the string literals of a file, except those within some nodes.
func stringsBut(file *ast.File, skip map[ast.Node]bool) (list []*ast.BasicLit) {
	ast.Inspect(file, func(n ast.Node) bool {
		if skip[n] {
			return false
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			list = append(list, lit)
		}
		return true
	})
	return list
}

// help returns the help text of a file's commands: see helpFields.
func help(file *ast.File) map[ast.Node]bool {
	found := map[ast.Node]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if of, ok := lit.Type.(*ast.SelectorExpr); !ok || of.Sel.Name != "Command" || !isIdent(of.X, "cobra") {
			return true
		}
		for _, e := range lit.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok && slices.ContainsFunc(helpFields, func(f string) bool { return isIdent(kv.Key, f) }) {
				found[kv] = true
			}
		}
		return true
	})
	return found
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
