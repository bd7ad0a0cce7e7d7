package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/internal/task/database"
)

// TestMain lets the test binary act as bothy for the shells, and as the program that bothy starts
// for tasks.
func TestMain(m *testing.M) {
	if os.Args[0] == book.Argv0 {
		os.Exit(database.Main(os.Args[1], os.Stdin, os.Stdout))
	}
	if name := filepath.Base(os.Args[0]); name == "bothy" || name == pluginName {
		os.Exit(Main(append([]string{name}, os.Args[1:]...)))
	}
	os.Exit(m.Run())
}

// installed puts a bothy in the PATH, with two sandboxes and a third whose files are broken and
// whose name is a command. It returns the directory in the PATH.
func installed(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	dir, state := t.TempDir(), t.TempDir()
	for _, name := range []string{"bothy", pluginName} {
		must(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("BOTHY_HOME", state)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, name := range []string{"alpha", "beta"} {
		output(t, "bothy", "create", "-q", "--name", name, "shell")
	}
	must(t, os.Mkdir(filepath.Join(state, "sandboxes", "$(touch owned)"), 0o700))
	return dir
}

// output runs a command and returns its standard output.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, said.String())
	}
	return string(out)
}

func TestComplete(t *testing.T) {
	racetest.Skip(t)
	installed(t)
	tests := []struct{ line, want string }{
		{"insp|", "inspect :4"},
		{"|sto", "stop :4"},
		{"stop|", "alpha beta :4"},
		{"stop --timeout 1s alpha|", "beta :4"},
		{"rm -f|al", "alpha :4"},
		{"inspect|$", ":4"},
		{"logs alpha|", ":4"},
		{"logs --source|", "output events network model checkpoints keeper :4"},
		{"logs|--source=e", "events :4"},
		{"logs|--fo", "--follow :4"},
		{"top|", "alpha beta :4"},
		{"cost alpha|", "beta :4"},
		{"ls|", ":4"},
		{"exec|", "alpha beta :4"},
		{"exec -it|be", "beta :4"},
		{"exec alpha|", ":0"},
		{"exec alpha|-", ":0"},
		{"run|", "alpha beta shell claude codex copilot cursor gemini opencode :0"},
		{"run|./", ":0"},
		{"run -it|sh", "shell :0"}, // a habit from docker
		{"run shell|", ":0"},
		{"run --name|a", "alpha :4"},
		{"run -v|", ":0"},
		{"run -t|", "host :4"},
		{"run --env-file|x", ":0"},
		{"create|", "shell claude codex copilot cursor gemini opencode :4"},
		{"create shell|", ":0"},
		{"cp|", "alpha: beta: :2"},
		{"cp|./", ":0"},
		{"cp|alpha:/e", ":4"},
		{"cp notes.md|b", "beta: :2"},
		{"doctor|", "claude codex copilot cursor gemini opencode :4"},
		{"loop run --agent|", "claude codex copilot cursor gemini opencode :4"},
		{"ralph --agent|", "claude codex copilot cursor gemini opencode :4"},
		{"agent show|n", "node :4"},
		{"agent install|n", "node :4"},
		{"secret set x --login|", "claude codex gemini :4"},
		{"completion|", "bash zsh fish powershell :4"},
		{"help|ex", "exec :4"},
		{"help exec|", ":4"},
	}
	for _, tt := range tests {
		before, word, _ := strings.Cut(tt.line, "|")
		words := append(strings.Fields(before), word)
		if before == "insp" { // the word itself
			words = []string{before}
		}
		for _, call := range [][]string{{"bothy", "__complete"}, {pluginName, "__complete", "sandbox"}} {
			var got []string
			for line := range strings.Lines(output(t, call[0], append(call[1:], words...)...)) {
				value, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
				got = append(got, value)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%q as %s gives %q, not %q", tt.line, call[0], got, tt.want)
			}
		}
	}
}

// TestCompleteWithoutConfig checks that completion works with a broken configuration.
func TestCompleteWithoutConfig(t *testing.T) {
	installed(t)
	dir := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "bothy")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("no: such setting\n"), 0o600))
	if got := output(t, "bothy", "__complete", "stop", "a"); got != "alpha\n:4\n" {
		t.Errorf("printed %q", got)
	}
}

// shell returns the path of a shell, or skips the test.
func shell(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// TestBash splits the words as bash does: : and = are words of their own.
func TestBash(t *testing.T) {
	racetest.Skip(t)
	bash := shell(t, "bash")
	dir := installed(t)
	must(t, os.WriteFile(filepath.Join(dir, "script"), []byte(output(t, "bothy", "completion", "bash")), 0o600))
	const driver = `
		set -u
		compopt() { options+=" $*"; }
		complete() { [[ "$*" == "-o default -F _bothy bothy" ]] || echo "complete $*"; }
		source script
		COMP_LINE=$1 COMP_POINT=${#1} options=
		shift
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_bothy
		echo "${COMPREPLY[*]-}$options"`
	tests := []struct{ line, words, want string }{
		{"bothy insp", "bothy insp", "inspect +o default"},
		{"  bothy   insp", "bothy insp", "inspect +o default"},
		{"bothy ", "bothy ", "acp agent apply checkpoint completion cost cp create diff discard doctor events exec fetch flow fork help inspect logs loop ls network open policy ports prune ralph reset rm run runs save secret serve setup ssh-proxy stop system task template token top version +o default"},
		{"bothy exec ", "bothy exec ", "alpha beta +o default"},
		{"bothy exec alpha ", "bothy exec alpha ", ""},
		{"bothy stop al", "bothy stop al", "alpha +o default"},
		{"bothy nosuch ", "bothy nosuch ", " +o default"},
		{"bothy ls --no ", "bothy ls --no ", ""}, // an unknown flag turns off our completion
		{"bothy logs --source e", "bothy logs --source e", "events +o default"},
		{"bothy logs --source=", "bothy logs --source =", "output events network model checkpoints keeper +o default"},
		{"bothy logs --source=e", "bothy logs --source = e", "events +o default"},
		{"bothy logs --source=events al", "bothy logs --source = events al", "alpha +o default"},
		{"bothy cp al", "bothy cp al", "alpha: -o nospace"},
		{"bothy cp alpha:", "bothy cp alpha :", " +o default"},
		{"bothy cp alpha:/x b", "bothy cp alpha : /x b", "beta: -o nospace"},
		{"bothy cp ./", "bothy cp ./", ""},
		{"bothy run shell ", "bothy run shell ", ""},
		{"bothy rm $(touch owned) `touch owned` ", "bothy rm $(touch_owned) `touch_owned` ", "alpha beta +o default"},
	}
	for _, tt := range tests {
		words := strings.Split(tt.words, " ")
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "_", " ")
		}
		for _, line := range []string{tt.line, ""} {
			if line == "" && strings.ContainsAny(tt.line, ":=") {
				continue // without COMP_LINE the script cannot tell which words belong together
			}
			cmd := exec.Command(bash, append([]string{"--norc", "-c", driver, "bash", line}, words...)...)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSuffix(string(out), "\n"); err != nil || got != tt.want {
				t.Errorf("%q gives %q, not %q: %v", tt.line, got, tt.want, err)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "owned")); err == nil {
		t.Error("something was executed")
	}
}

func TestZsh(t *testing.T) {
	zsh := shell(t, "zsh")
	dir := installed(t)
	must(t, os.WriteFile(filepath.Join(dir, "_bothy"), []byte(output(t, "bothy", "completion", "zsh")), 0o600))
	const driver = `
		compdef() { [[ "$*" == "_bothy bothy" ]] || print "compdef $*" }
		compset() { PREFIX=${PREFIX#*=} }
		_describe() { local -a list=("${(@P)2}"); print -r -- "$list" "${(qq)@[3,-1]}" }
		_files() { print files }
		source ./_bothy
		words=("$@") CURRENT=$# PREFIX=${@[-1]}
		_bothy`
	for words, want := range map[string]string{
		"bothy|insp":                   "inspect:Show everything about sandboxes, as JSON",
		"bothy|exec|":                  "alpha beta",
		"bothy|exec|alpha|":            "files",
		"bothy|stop|al":                "alpha",
		"bothy|logs|--source|e":        "events",
		"bothy|logs|--source=e":        "events",
		"bothy|logs|alpha|":            "",
		"bothy|ls|--no|":               "",
		"bothy|cp|al":                  `alpha\: '-S' ''`,
		"bothy|rm|$(touch owned)|":     "alpha beta",
		"bothy|exec|-w|\"a b\"|alp":    "alpha",
		"bothy|run|shell|./":           "files",
		"bothy|completion|p":           "powershell",
		"bothy|--source|`touch owned`": "",
	} {
		cmd := exec.Command(zsh, append([]string{"-f", "-c", driver, "zsh"}, strings.Split(words, "|")...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSuffix(string(out), "\n"); got != want {
			t.Errorf("%q gives %q, not %q: %v", words, got, want, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "owned")); err == nil {
		t.Error("something was executed")
	}
}

func TestFish(t *testing.T) {
	fish := shell(t, "fish")
	dir := installed(t)
	must(t, os.WriteFile(filepath.Join(dir, "file.txt"), nil, 0o600))
	script := filepath.Join(t.TempDir(), "bothy.fish")
	must(t, os.WriteFile(script, []byte(output(t, "bothy", "completion", "fish")), 0o600))
	for line, want := range map[string]string{
		"bothy insp":                "inspect\tShow everything about sandboxes, as JSON",
		"bothy exec ":               "alpha beta",
		"bothy exec alpha cat fi":   "file.txt",
		"bothy stop al":             "alpha",
		"bothy logs --source e":     "events",
		"bothy logs --source=e":     "--source=events",
		"bothy ls fi":               "",
		"bothy ls --no fi":          "",
		"bothy cp be":               "beta:",
		"bothy cp fi":               "file.txt",
		"bothy rm (touch owned) al": "alpha",
	} {
		cmd := exec.Command(fish, "--no-config", "-c", `source $argv[1]; complete -C $argv[2]`, script, line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if got := strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", " "); err != nil || got != want {
			t.Errorf("%q gives %q, not %q: %v", line, got, want, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "owned")); err == nil {
		t.Error("something was executed")
	}
}
