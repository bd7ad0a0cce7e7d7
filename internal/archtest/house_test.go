package archtest

import (
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"testing"
)

// maxMethods is the most methods that a type may have, and maxPackage the most lines of source of a package.
// A larger one answers more than one question.
const (
	maxMethods = 60
	maxPackage = 4000
)

// TestTypeSizes counts methods. A type in manyMethods may have as many as it says, and no longer more than it
// has.
func TestTypeSizes(t *testing.T) {
	found := map[string]int{}
	eachFile(t, func(s source) {
		for _, d := range s.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				found[s.pkg.short()+"."+receiver(f.Recv.List[0].Type)]++
			}
		}
	})
	for name, n := range found {
		if limit := max(manyMethods[name], maxMethods); n > limit {
			t.Errorf("%s has %d methods, more than %d: give a concern of it a type of its own", name, n, limit)
		}
	}
	for name, n := range manyMethods {
		if found[name] < n {
			t.Errorf("manyMethods allows %s %d methods, and it has %d: lower the number, or remove the entry", name, n, found[name])
		}
	}
}

// TestShortNames counts functions whose unexported name has five letters or fewer: it cannot be searched for. The
// allowed number only falls.
func TestShortNames(t *testing.T) {
	short, all := 0, 0
	eachFile(t, func(s source) {
		for _, d := range s.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.IsExported() || f.Name.Name == "main" || f.Name.Name == "init" {
				continue
			}
			if all++; len(f.Name.Name) <= 5 {
				short++
			}
		}
	})
	switch {
	case short > maxShortNames:
		t.Errorf("%d of %d unexported functions have names of five letters or fewer, more than %d: give the new ones an object", short, all, maxShortNames)
	case short < maxShortNames:
		t.Errorf("%d of %d unexported functions have names of five letters or fewer: lower maxShortNames", short, all)
	}
}

// receiver returns the name of a receiver's type.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// TestPackageSizes counts lines. A package in largePackages may have as many as it says.
func TestPackageSizes(t *testing.T) {
	for _, p := range all(t) {
		if isSuite(p.short()) {
			continue
		}
		lines := 0
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			lines += bytes.Count(text, []byte("\n"))
		}
		limit, large := largePackages[p.short()]
		switch {
		case large && lines <= maxPackage:
			t.Errorf("%s has %d lines: remove it from largePackages", p.short(), lines)
		case lines > max(limit, maxPackage):
			t.Errorf("%s has %d lines, more than %d: give a concern of it a package of its own", p.short(), lines, max(limit, maxPackage))
		}
	}
}
