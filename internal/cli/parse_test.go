package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	must(t, os.WriteFile(file, []byte("# a comment\n\n  # another\nA=file\r\nB=x=y # kept\nPASSED\nABSENT\nEMPTY=\nlast=1"), 0o600))
	t.Setenv("PASSED", "from outside")
	must(t, os.Unsetenv("ABSENT"))
	got, err := (&app{&cmdline.App{Console: &console.Console{}, Guard: new(hostpath.Guard)}}).Environment([]string{"A=flag", "PASSED", "ABSENT", "M=a\nb", "U=naïve"}, []string{file})
	must(t, err)
	want := []string{"A=file", "B=x=y # kept", "PASSED=from outside", "EMPTY=", "last=1", "A=flag", "PASSED=from outside", "M=a\nb", "U=naïve"}
	if !slices.Equal(got, want) {
		t.Errorf("environment() = %q, want %q", got, want)
	}
	for _, bad := range []string{"=x", "", "A B=c", " A=b", "A\t=b", "A=\x00", "A\n=x", "export A=b"} {
		if got, err := (&app{&cmdline.App{Console: &console.Console{}, Guard: new(hostpath.Guard)}}).Environment([]string{bad}, nil); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q gives %q, %v", bad, got, err)
		}
	}
	if _, err := (&app{&cmdline.App{Console: &console.Console{}, Guard: new(hostpath.Guard)}}).Environment(nil, []string{file + "x"}); !errors.Is(err, spec.ErrUsage) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestSplitSandboxPath(t *testing.T) {
	tests := []struct {
		arg, name, path string
		ok              bool
	}{
		{"shell-app:/etc/os-release", "shell-app", "/etc/os-release", true},
		{"shell-app:/a:b", "shell-app", "/a:b", true},
		{"shell-app:relative", "shell-app", "relative", true},
		{"shell-app:", "shell-app", "", true},
		{"shell-app", "", "", false},
		{"-", "", "", false},
		{"", "", "", false},
		{":/x", "", "", false},
		{"/host:/x", "", "", false},
		{"./a:b", "", "", false},
		{"../a:b", "", "", false},
		{".:x", "", "", false},
		{"a:/x", "", "", false},
		{"my file:/x", "", "", false},
		{"-rf:/x", "", "", false},
		{"default:/x", "", "", false},
		{"a/b:/x", "", "", false},
	}
	for _, tt := range tests {
		name, path, ok := splitSandboxPath(tt.arg)
		if ok != tt.ok || ok && (name != tt.name || path != tt.path) {
			t.Errorf("splitSandboxPath(%q) = %q, %q, %t", tt.arg, name, path, ok)
		}
	}
}

func TestSourceName(t *testing.T) {
	for path, want := range map[string]string{
		"/a/b": "b", "/a/b/": "b", "b": "b", "/a/b/.": ".", ".": ".", "/": ".", "//": ".", "..": ".", "../..": ".", "../b": "b", "/a/..": ".", "b/.//": "b",
	} {
		if got := sourceName(path); got != want {
			t.Errorf("sourceName(%q) = %q, want %q", path, got, want)
		}
	}
}

// captured returns an app that prints into a file, and a function that reads the file.
func captured(t *testing.T) (a *app, printed func() string) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	t.Cleanup(func() { out.Close() })
	return newApp(&console.Console{In: os.Stdin, Out: out, Err: out, Command: "bothy"}), func() string {
		b, err := os.ReadFile(out.Name())
		must(t, err)
		return string(b)
	}
}

func TestPlugin(t *testing.T) {
	tests := []struct{ args, want string }{
		{"bothy ls", "bothy ls"},
		{"/usr/bin/bothy sandbox ls", "/usr/bin/bothy sandbox ls"},
		{"bothy docker-cli-plugin-metadata", "bothy docker-cli-plugin-metadata"},
		{"/p/docker-sandbox sandbox ls -q", "/p/docker-sandbox ls -q"},
		{"docker-sandbox sandbox", "docker-sandbox"},
		{"docker-sandbox sandbox exec box sandbox ls", "docker-sandbox exec box sandbox ls"},
		{"docker-sandbox --debug sandbox ls", "docker-sandbox ls"},
		{"docker-sandbox ls", "docker-sandbox ls"},
		{"docker-sandbox __complete sandbox stop box", "docker-sandbox __complete stop box"},
		{"docker-sandbox", "docker-sandbox"},
	}
	for _, tt := range tests {
		a, printed := captured(t)
		got, done := a.asPlugin(strings.Fields(tt.args))
		if strings.Join(got, " ") != tt.want || done || printed() != "" {
			t.Errorf("%q becomes %q, answered %t, printed %q", tt.args, got, done, printed())
		}
		if want := strings.Contains(tt.args, "docker-sandbox"); (a.Command == "docker sandbox") != want {
			t.Errorf("after %q we are called %q", tt.args, a.Command)
		}
	}
	a, printed := captured(t)
	if _, done := a.asPlugin([]string{"/p/docker-sandbox", pluginMetadata}); !done {
		t.Error("the metadata call is not answered")
	}
	var m map[string]string
	must(t, json.Unmarshal([]byte(printed()), &m))
	if m["SchemaVersion"] != "0.1.0" || m["Vendor"] == "" || m["Version"] == "" || m["ShortDescription"] == "" {
		t.Errorf("metadata: %v", m)
	}
}

// TestReport checks that control sequences from a person or a sandbox are printed harmlessly.
func TestReport(t *testing.T) {
	err := spec.Errorf(spec.ErrNotFound, "no \x1b]0;evil\a%s", "x\x1b[2J").WithHint("look \x1b[31mhere")
	a, printed := captured(t)
	if code := a.Report(err); code != spec.ExitNotFound {
		t.Errorf("exit code %d", code)
	}
	text := printed()
	if strings.ContainsAny(text, "\x1b\a") || !strings.HasPrefix(text, "bothy: error: ") || !strings.Contains(text, "\nbothy: hint: look ") {
		t.Errorf("printed %q", text)
	}
	a, printed = captured(t)
	a.JSON = true
	a.Report(err)
	var doc struct{ Error spec.WireError }
	must(t, json.Unmarshal([]byte(printed()), &doc))
	if doc.Error.Class != "not_found" || doc.Error.Code != 4 {
		t.Errorf("printed %+v", doc)
	}
	for _, quiet := range []error{nil, &spec.Exited{Code: 9}} {
		a, printed = captured(t)
		if code := a.Report(quiet); code != spec.ExitCode(quiet) || printed() != "" {
			t.Errorf("%v: exit code %d, printed %q", quiet, code, printed())
		}
	}
}

// FuzzParseSize checks that a size of any text is refused or positive.
func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"1", "1.5g", "4GiB", "-1", "1e3", "0x1p4", "k", "1bb"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := spec.ParseSize(text); err == nil && n < 0 {
			t.Errorf("%q is %d", text, n)
		}
	})
}
