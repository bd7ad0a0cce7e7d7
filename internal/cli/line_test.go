package cli

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestWrongWords checks that unknown words are errors, with or without --help, and that the hints
// help.
func TestWrongWords(t *testing.T) {
	aside(t)
	for line, want := range map[string][2]string{
		"xyzzy":                          {`unknown command "xyzzy"`, "bothy --help lists the commands"},
		"xyzzy --help":                   {`unknown command "xyzzy"`, "bothy --help lists the commands"},
		"xyzzy --no":                     {`unknown command "xyzzy"`, "bothy --help lists the commands"},
		"-- ls":                          {`unknown command "ls"`, "did you mean bothy ls?"},
		"rnu -it claude":                 {`unknown command "rnu"`, "run"},
		"polciy ls":                      {`unknown command "polciy"`, "did you mean bothy policy?"},
		"attach box":                     {`unknown command "attach"`, "did you mean bothy run?"},
		"start box":                      {`unknown command "start"`, "did you mean bothy run?"},
		"kill box":                       {`unknown command "kill"`, "did you mean bothy stop?"},
		"claude .":                       {`unknown command "claude"`, "claude is an agent: bothy run claude"},
		"claude . --model x":             {`unknown command "claude"`, "claude is an agent: bothy run claude"},
		"cluade .":                       {`unknown command "cluade"`, "did you mean bothy run claude?"},
		"policy alow x":                  {`bothy policy has no command "alow"`, "did you mean bothy policy allow"},
		"policy alow --help":             {`bothy policy has no command "alow"`, "did you mean bothy policy allow"},
		"policy preset nope":             {`bothy policy preset has no command "nope"`, "bothy policy preset --help lists the commands"},
		"help nope nope":                 {`unknown command "nope"`, ""},
		"help policy alow":               {`bothy policy has no command "alow"`, "allow"},
		"ls --jsn":                       {"unknown flag: --jsn", "did you mean --json?"},
		"ls --nothing":                   {"unknown flag: --nothing", "bothy ls --help lists the flags"},
		"ls -Q":                          {"unknown shorthand flag: 'Q' in -Q", "bothy ls --help lists the flags"},
		"stop --timeout":                 {"flag needs an argument: --timeout", "bothy stop --help"},
		"run claude . --mdoel opus":      {"unknown flag: --mdoel", "flags of the program inside follow --: bothy run claude . -- --mdoel"},
		"run shell . ls -la":             {"unknown shorthand flag: 'l' in -la", "bothy run shell . -- ls -la"},
		"run shell . --worksapce review": {"unknown flag: --worksapce", "did you mean --workspace?"},
		"run shell . ls":                 {"ls does not exist", "if ls is a command, write it after --: bothy run shell . -- ls"},
		"run cluade .":                   {`no agent or sandbox named "cluade"`, "did you mean claude?"},
		"exec box --help":                {`no sandbox named "box"`, ""}, // flags after the sandbox belong to the command
		"create shell . --name= -e A=1":  {"--name is empty", "bothy create --help"},
		"exec box '' --":                 {`no sandbox named "box"`, ""}, // these arguments are for the program inside
	} {
		words := strings.Fields(line)
		for i, w := range words {
			words[i] = strings.Trim(w, "'")
		}
		out, err := called(t, words...)
		if err == nil || !strings.Contains(err.Error(), want[0]) || !strings.Contains(spec.Hint(err), want[1]) || out != "" {
			t.Errorf("%q: %v; hint: %s; printed %q", line, err, spec.Hint(err), out)
		}
	}
}

// TestHelp checks that help goes to standard output, also for a group without a command.
func TestHelp(t *testing.T) {
	aside(t)
	for line, want := range map[string]string{
		"":                "Usage:\n  bothy [command]\n",
		"policy":          "Usage:\n  bothy policy [command]\n",
		"policy --help":   "Usage:\n  bothy policy [command]\n",
		"help policy":     "Usage:\n  bothy policy [command]\n",
		"stop -h":         "Usage:\n  bothy stop SANDBOX... [flags]\n",
		"stop a b --help": "Usage:\n  bothy stop SANDBOX... [flags]\n",
		"list --help":     "Aliases:\n  ls, list, ps\n",
	} {
		out, err := called(t, strings.Fields(line)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%q: %v, printed\n%s", line, err, out)
		}
	}
}

// TestHelpWithoutConfig checks that help and suggestions work with a broken configuration.
func TestHelpWithoutConfig(t *testing.T) {
	aside(t)
	must(t, os.Mkdir(os.Getenv("XDG_CONFIG_HOME")+"/bothy", 0o700))
	must(t, os.WriteFile(os.Getenv("XDG_CONFIG_HOME")+"/bothy/config.yaml", []byte("no: such setting\n"), 0o600))
	if out, err := called(t, "ls", "--help"); err != nil || !strings.Contains(out, "Usage:") {
		t.Errorf("%v, printed %q", err, out)
	}
	if _, err := called(t, "ls"); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("ls with it: %v", err)
	}
}
