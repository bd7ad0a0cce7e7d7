package agent

import (
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func TestSubcommands(t *testing.T) {
	for text, ok := range map[string]bool{"[exec, e]": true, "[]": true, "[--exec]": false, "[./exec]": false, "['']": false} {
		if _, err := Decode([]byte("version: 1\nname: a\ntitle: A\nprogram: a\nsubcommands: " + text + "\n")); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestHeadless(t *testing.T) {
	a := &spec.Agent{Program: "mine", Headless: &spec.AgentHeadless{Args: []string{"run", "--json"}}}
	for _, c := range []struct {
		prompt spec.AgentPrompt
		argv   []string
		stdin  string
	}{
		{spec.AgentPrompt{Stdin: true}, []string{"mine", "run", "--json"}, "do {model} it"},
		{spec.AgentPrompt{Stdin: true, Args: []string{"-"}}, []string{"mine", "run", "--json", "-"}, "do {model} it"},
		{spec.AgentPrompt{Args: []string{"-p", "{prompt}"}}, []string{"mine", "run", "--json", "-p", "do {model} it"}, ""},
	} {
		a.Headless.Prompt = c.prompt
		if argv, stdin := Headless(a, "do {model} it", "", ""); !slices.Equal(argv, c.argv) || stdin != c.stdin {
			t.Errorf("%q, %q", argv, stdin)
		}
	}
	a.Headless.Model = []string{"--model", "x/{model}"}
	want := []string{"mine", "run", "--json", "--model", "x/{prompt}", "-p", "do it"}
	if argv, _ := Headless(a, "do it", "{prompt}", ""); !slices.Equal(argv, want) {
		t.Errorf("with a model it is %q", argv)
	}
	if argv, _ := Headless(a, "do it", "", "x"); slices.Contains(argv, "x") {
		t.Errorf("without a way to go on with a session it is %q", argv)
	}
	a.Headless.Session = &spec.AgentSession{Resume: []string{"resume", "{session}"}}
	want = []string{"mine", "run", "--json", "resume", "{prompt}", "-p", "do it"}
	if argv, _ := Headless(a, "do it", "", "{prompt}"); !slices.Equal(argv, want) {
		t.Errorf("with a session it is %q", argv)
	}
}
