package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// ownAgent writes a description with optional extra lines, and returns its file.
func ownAgent(t *testing.T, name, more string) string {
	t.Helper()
	file := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "bothy", "agents", name+".yaml")
	must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	must(t, os.WriteFile(file, []byte("version: 1\nname: "+name+"\ntitle: Own\nprogram: id\n"+more), 0o600))
	return file
}

// TestNoShellInstead checks that an agent whose description is missing or broken is an error, not a
// shell.
func TestNoShellInstead(t *testing.T) {
	aside(t)
	file := ownAgent(t, "mine", "")
	_, err := called(t, "create", "--name", "box", "mine", ".")
	must(t, err)
	must(t, os.Remove(file))
	for _, words := range [][]string{{"run", "box"}, {"run", "--name", "box"}} {
		if _, err := called(t, words...); !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "the agent mine, whose description is gone") {
			t.Errorf("%q: %v", words, err)
		}
	}
	ownAgent(t, "mine", "presets: [nosuch]\n")
	for _, words := range [][]string{{"run", "box"}, {"run", "--name", "box"}, {"run", "mine", "."}, {"create", "mine", "."}} {
		if _, err := called(t, words...); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), `mine.yaml: presets: no preset "nosuch"`) {
			t.Errorf("%q: %v", words, err)
		}
	}
}

// TestNeitherProgramNorDirectory checks the errors for a path that is neither a directory nor a
// program.
func TestNeitherProgramNorDirectory(t *testing.T) {
	aside(t)
	must(t, os.WriteFile("my-agent", []byte("#!/bin/sh\n"), 0o600))
	for _, tt := range []struct {
		words []string
		class error
		says  string
		hint  string
	}{
		{[]string{"run", "./my-agent", "."}, spec.ErrUsage, "./my-agent is not a program: its mode forbids to execute it", "chmod +x"},
		{[]string{"run", "./my-agent"}, spec.ErrUsage, "./my-agent is not a program: its mode forbids to execute it", "chmod +x"},
		{[]string{"create", "./my-agent", "."}, spec.ErrUsage, "./my-agent is not a program: its mode forbids to execute it", "chmod +x"},
		{[]string{"run", "./nope", "."}, spec.ErrNotFound, "./nope is not there", "a program is a file that may be executed"},
		{[]string{"run", "./nope"}, spec.ErrNotFound, "does not exist", "mkdir -p /"},
		{[]string{"run", "./nope:ro", "."}, spec.ErrNotFound, "./nope:ro is not there", "mkdir -p"},
	} {
		_, err := called(t, tt.words...)
		if !errors.Is(err, tt.class) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(spec.Hint(err), tt.hint) {
			t.Errorf("%q: %v; hint: %s", tt.words, err, spec.Hint(err))
		}
	}
}
