package archtest

import (
	"go/ast"
	"slices"
	"testing"
)

// openers open a path by its name and follow every link in it.
var openers = map[string]bool{
	"os.Open": true, "os.OpenFile": true, "os.ReadFile": true, "os.OpenRoot": true, "os.DirFS": true, "os.ReadDir": true, "os.Create": true, "os.WriteFile": true,
	"path/filepath.EvalSymlinks": true, "path/filepath.Walk": true, "path/filepath.WalkDir": true,
	module + "/internal/store.ReadFile": true, module + "/internal/store.OpenRegular": true,
}

// opensByName lists files of packages that get paths from a person and open other paths by name. Package
// hostpath opens the paths that a person names, because a sandbox may have made a link.
var opensByName = map[string]string{
	"internal/settings/settings.go":   "the settings, in the directory that the system has for them",
	"internal/launch/flow_carry.go":   "a draft in the run's own directory",
	"internal/launch/flow_into.go":    "what hostpath has judged, and which no sandbox can write to",
	"internal/cli/logs.go":            "a log in the state directory",
	"internal/cli/cmdline/outfile.go": "in a directory that hostpath has opened",
	"internal/cli/runview/output.go":  "a log in the state directory",
	"internal/cli/runs/ralph.go":      "the working directory, to compare it",
	"internal/builder/step.go":        "a cache in the state directory",
	"internal/workspace/workspace.go": "a path that is compared, and not opened",
}

// starters find or start a program of the host by its name.
var starters = map[string]bool{"os/exec.LookPath": true, "os/exec.Command": true, "os/exec.CommandContext": true}

// startsByName lists the files that may use starters. In all others hostpath finds the program.
var startsByName = map[string]string{
	"internal/hostpath/program.go": "it is what finds programs",
	"internal/doctor/ask.go":       "/proc/self/exe",
	"internal/doctor/doctor.go":    "/proc/self/exe",
	"internal/helper/ask.go":       "this program, or the bothy beside a foreign one",
	"internal/vault/ask/ask.go":    "this program, or the bothy beside a foreign one",
	"internal/clone/git.go":        "a program that hostpath has found",
	"internal/build/step/enter.go": "it starts programs of a sandbox, inside",
}

// TestNamedPaths checks that packages that get paths from a person leave opening them to hostpath.
func TestNamedPaths(t *testing.T) {
	checkCalls(t, openers, opensByName, func(pkg string) bool {
		return under(pkg, "internal/cli") || slices.Contains([]string{"internal/settings", "internal/provision", "internal/launch", "internal/builder", "internal/workspace"}, pkg)
	}, "opens a path by name: let hostpath open what a person names, or give the reason in opensByName")
}

// TestPrograms checks that only hostpath finds programs of the host.
func TestPrograms(t *testing.T) {
	checkCalls(t, starters, startsByName, func(pkg string) bool {
		return !under(pkg, "examples") && !under(pkg, "test") && !under(pkg, "bench")
	}, "finds or starts a program by name: hostpath refuses one that a sandbox may have written")
}

// checkCalls rejects such calls in files that are not listed, and listed files without such a call.
func checkCalls(t *testing.T, calls map[string]bool, listed map[string]string, counts func(pkg string) bool, why string) {
	t.Helper()
	found := map[string]bool{}
	eachFile(t, func(s source) {
		if !counts(s.pkg.short()) {
			return
		}
		for _, call := range s.calls(t) {
			if !calls[call] {
				continue
			}
			found[s.name] = true
			if listed[s.name] == "" {
				t.Errorf("%s calls %s, which %s", s.name, call, why)
			}
		}
	})
	for file := range listed {
		if !found[file] {
			t.Errorf("%s is listed, and calls nothing of the kind", file)
		}
	}
}

// calls returns the functions of other packages that a file uses, qualified by package path.
func (s source) calls(t *testing.T) (list []string) {
	t.Helper()
	imports := s.imports(t)
	ast.Inspect(s.File, func(n ast.Node) bool {
		if x, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := x.X.(*ast.Ident); ok && imports[of.Name] != "" {
				list = append(list, imports[of.Name]+"."+x.Sel.Name)
			}
		}
		return true
	})
	return list
}
