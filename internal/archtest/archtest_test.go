package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bothy-dev/bothy/internal/program"
)

// goPackage holds the fields that go list prints for a package.
type goPackage struct {
	ImportPath, Name, Doc, Dir string
	GoFiles, Imports           []string
}

// short is the path of a package within the module.
func (p goPackage) short() string { return shorten(p.ImportPath) }

func shorten(path string) string { return strings.TrimPrefix(path, module+"/") }

// packages lists every package of the module that has non-test code.
var packages = sync.OnceValues(func() ([]goPackage, error) {
	out, err := run(nil, "go", "list", "-json=ImportPath,Name,Doc,Dir,GoFiles,Imports", "./...")
	if err != nil {
		return nil, err
	}
	var list []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p goPackage
		if err := d.Decode(&p); err != nil {
			return nil, err
		}
		if len(p.GoFiles) > 0 {
			list = append(list, p)
		}
	}
	return list, nil
})

func all(t *testing.T) []goPackage {
	t.Helper()
	list, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// run runs a command in the module's root.
func run(env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// place finds the line of a package, and the entry it matches.
func place(pkg string) (line int, entry string, ok bool) {
	for i, l := range strings.Split(strings.TrimSpace(layers), "\n") {
		for e := range strings.FieldsSeq(l) {
			tree, isTree := strings.CutSuffix(e, "/...")
			if pkg == e || isTree && (pkg == tree || strings.HasPrefix(pkg, tree+"/")) {
				return i, e, true
			}
		}
	}
	return 0, "", false
}

func TestLayers(t *testing.T) {
	used := map[string]bool{}
	for _, p := range all(t) {
		line, entry, ok := place(p.short())
		if !ok {
			t.Errorf("%s has no place in the layers: say in rules_test.go whom it may know", p.short())
			continue
		}
		used[entry] = true
		for _, imp := range p.Imports {
			if imp != module && !strings.HasPrefix(imp, module+"/") {
				continue
			}
			to := shorten(imp)
			below, toEntry, ok := place(to)
			if !ok || below < line || entry == toEntry && strings.HasSuffix(entry, "/...") || exceptions[p.short()+" "+to] != "" {
				continue
			}
			t.Errorf("%s imports %s, which stands %s in the layers: a package knows only those above its own line",
				p.short(), to, map[bool]string{true: "beside it", false: "below it"}[below == line])
		}
	}
	for l := range strings.FieldsSeq(layers) {
		if !used[l] && !strings.HasSuffix(l, "/...") && !isSuite(l) {
			t.Errorf("%s stands in the layers, but there is no such package", l)
		}
	}
}

// under reports whether an import path is root or a package below it.
func under(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

func isSuite(pkg string) bool {
	return slices.ContainsFunc(suites, func(s string) bool { return under(pkg, s) })
}

func TestDoors(t *testing.T) {
	for _, p := range all(t) {
		if isSuite(p.short()) {
			continue
		}
		for _, imp := range p.Imports {
			for _, d := range doors {
				if under(imp, d.path) && !slices.Contains(d.by, p.short()) {
					t.Errorf("%s imports %s, which is for %s: %s", p.short(), imp, orNobody(d.by), d.why)
				}
			}
		}
	}
}

func orNobody(list []string) string {
	if len(list) == 0 {
		return "nobody"
	}
	return strings.Join(list, " and ")
}

func TestLinked(t *testing.T) {
	for command, reasons := range notLinked {
		if command != "cmd/bothy-build" {
			reasons = maps.Clone(reasons)
			maps.Copy(reasons, linkedNowhere)
		}
		out, err := run(nil, "go", "list", "-deps", "./"+command)
		if err != nil {
			t.Fatal(err)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			for path, why := range reasons {
				// An entry for a standard library package does not cover the packages below it.
				if dep == path || strings.Contains(path, ".") && under(dep, path) {
					t.Errorf("%s links %s: %s", command, dep, why)
				}
			}
			if strings.HasPrefix(dep, module+"/") && isSuite(shorten(dep)) {
				t.Errorf("%s links %s, which exists for tests only", command, shorten(dep))
			}
			if first, _, _ := strings.Cut(dep, "/"); command == "cmd/bothy-guest" && strings.Contains(first, ".") && !under(dep, module) && !slices.Contains(guestDeps, dep) {
				t.Errorf("%s links %s: every small process of a sandbox would pay for its init", command, dep)
			}
		}
	}
}

func TestPackageDocs(t *testing.T) {
	for _, p := range all(t) {
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command " + filepath.Base(p.ImportPath) + " "
		}
		if !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: its comment must begin %q, not %q", p.short(), want, p.Doc)
		}
		var files []string
		for _, f := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if file.Doc != nil {
				files = append(files, f)
			}
		}
		if len(files) > 1 {
			t.Errorf("%s: %v all carry a package comment; one is enough", p.short(), files)
		}
	}
}

func TestPins(t *testing.T) {
	out, err := run(nil, "go", "mod", "edit", "-json")
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Module           struct{ Path string }
		Require          []struct{ Path, Version string }
		Replace, Exclude []any
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	if mod.Module.Path != module {
		t.Errorf("the module is called %s, the rules say %s", mod.Module.Path, module)
	}
	if len(mod.Replace) > 0 || len(mod.Exclude) > 0 {
		t.Error("go.mod has a replace or an exclude: go install PATH@VERSION refuses both")
	}
	have := map[string]string{}
	for _, r := range mod.Require {
		have[r.Path] = r.Version
	}
	for _, p := range pins {
		switch v, ok := have[p.module]; {
		case !ok && p.required:
			t.Errorf("%s is missing from go.mod", p.module)
		case ok && p.version == "":
			t.Errorf("%s %s came in: %s", p.module, v, p.why)
		case ok && v != p.version:
			t.Errorf("%s is at %s, its pin is %s: %s", p.module, v, p.version, p.why)
		}
	}
}

// initCost is what one package costs before main begins.
type initCost struct {
	pkg           string
	bytes, allocs int
}

// parseInit reads a line of GODEBUG=inittrace=1:
//
//	init PACKAGE @TIME ms, TIME ms clock, BYTES bytes, ALLOCS allocs
func parseInit(line string) (c initCost, ok bool) {
	f := strings.Fields(line)
	if len(f) != 11 || f[0] != "init" || f[8] != "bytes," || f[10] != "allocs" {
		return c, false
	}
	b, err1 := strconv.Atoi(f[7])
	a, err2 := strconv.Atoi(f[9])
	return initCost{f[1], b, a}, err1 == nil && err2 == nil
}

// build returns the path of a program. All programs are built once.
func build(t *testing.T, command string) string {
	t.Helper()
	if _, err := built(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(work, filepath.Base(command))
}

var built = sync.OnceValues(func() ([]byte, error) { return run(nil, "go", "build", "-o", work+"/", "./cmd/...") })

// work is a directory that exists as long as the tests run.
var work string

func TestMain(m *testing.M) {
	var err error
	if work, err = os.MkdirTemp("", "archtest-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(work)
	os.Exit(code)
}

// trace returns the init trace of a program that gets nothing to do and exits at once.
func trace(t *testing.T, command string, args ...string) []initCost {
	t.Helper()
	cmd := exec.Command(build(t, command), args...)
	cmd.Env = []string{"GODEBUG=inittrace=1", "HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	var costs []initCost
	for line := range strings.Lines(string(out)) {
		if c, ok := parseInit(line); ok {
			costs = append(costs, c)
		}
	}
	if len(costs) == 0 {
		t.Fatalf("no init trace in the output:\n%s", out)
	}
	return costs
}

func TestInit(t *testing.T) {
	for command, budget := range initBudgets {
		t.Run(command, func(t *testing.T) {
			sum, own, large := total(trace(t, command, "version"))
			t.Logf("init: %d KiB, %d allocations; ours %d bytes", sum.bytes>>10, sum.allocs, own)
			if sum.bytes > budget.bytes || sum.allocs > budget.allocs {
				t.Errorf("init takes %d KiB and %d allocations, the budget is %d KiB and %d. The largest:\n%s",
					sum.bytes>>10, sum.allocs, budget.bytes>>10, budget.allocs, strings.Join(large, "\n"))
			}
			for range 4 { // other work of the runtime is sometimes counted as part of an init
				if own > initOwnBytes {
					_, again, _ := total(trace(t, command, "version"))
					own = min(own, again)
				}
			}
			if own > initOwnBytes {
				t.Errorf("our own packages take %d bytes in init, the budget is %d: use sync.OnceValue", own, initOwnBytes)
			}
		})
	}
}

// total sums the cost of all inits and of those of our own packages, and names the large ones.
func total(costs []initCost) (sum initCost, own int, large []string) {
	for _, c := range costs {
		sum.bytes += c.bytes
		sum.allocs += c.allocs
		if under(c.pkg, module) {
			own += c.bytes
		}
		if c.bytes >= initNamedFrom {
			large = append(large, fmt.Sprintf("%6d KiB %6d allocations  %s", c.bytes>>10, c.allocs, c.pkg))
		}
	}
	return sum, own, large
}

// TestGVisorVersion compares the version that bothy names with the one that the keeper links.
func TestGVisorVersion(t *testing.T) {
	out, err := run(nil, "go", "list", "-m", "-f", "{{.Version}}", "gvisor.dev/gvisor")
	if err != nil {
		t.Fatal(err)
	}
	if v := strings.TrimSpace(string(out)); v != program.GVisor {
		t.Errorf("go.mod has gVisor %s, program.GVisor says %s", v, program.GVisor)
	}
}
