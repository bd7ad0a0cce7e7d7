package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// TestPruneFilters checks that several filters all have to match, also several of one kind, in any
// order.
func TestPruneFilters(t *testing.T) {
	aside(t)
	for _, name := range []string{"t1", "t2"} {
		_, err := called(t, "create", "--name", name, "shell")
		must(t, err)
	}
	created := regexp.MustCompile(`"created_at": "[^"]*"`)
	specs, err := filepath.Glob(filepath.Join(os.Getenv("BOTHY_HOME"), "sandboxes", "*", "spec.json"))
	must(t, err)
	for _, file := range specs { // three hours ago
		data, err := os.ReadFile(file)
		must(t, err)
		past := `"created_at": "` + time.Now().Add(-3*time.Hour).UTC().Format(time.RFC3339) + `"`
		must(t, os.WriteFile(file, created.ReplaceAll(data, []byte(past)), 0o600))
	}
	for _, tt := range []struct{ filters, want string }{
		{"until=1h", "t1 t2"},
		{"until=720h until=1h", ""},
		{"until=1h until=720h", ""},
		{"until=2h until=1h", "t1 t2"},
		{"name=t* name=t1", "t1"},
		{"name=t1 name=t*", "t1"},
		{"name=zz* name=t*", ""},
		{"agent=claude agent=shell", ""},
		{"agent=shell agent=shell name=*2", "t2"},
	} {
		words := []string{"prune", "--dry-run"}
		for f := range strings.FieldsSeq(tt.filters) {
			words = append(words, "--filter", f)
		}
		out, err := called(t, words...)
		must(t, err)
		got := ""
		for _, name := range []string{"t1", "t2"} {
			if strings.Contains(out, "sandbox "+name+"\n") {
				got += " " + name
			}
		}
		if strings.TrimSpace(got) != tt.want {
			t.Errorf("%s: %q, not %q", tt.filters, got, tt.want)
		}
	}
	if _, err := called(t, "prune", "--filter", "until=0001-01-01T00:00:00Z"); spec.ExitCode(err) != spec.ExitUsage {
		t.Errorf("until a time that is none: %v", err)
	}
}
