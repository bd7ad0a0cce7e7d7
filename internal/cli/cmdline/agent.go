package cmdline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/spec"
)

// Absent refuses a word, the first of several paths, that is not an existing file or directory. A single
// missing path is taken for a directory to share.
func Absent(word string) error {
	_, err := os.Stat(strings.TrimSuffix(word, ":ro"))
	if !errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(word, "~") {
		return nil // the shell did not expand it
	}
	return spec.Errorf(spec.ErrNotFound, "%s is not there", word).
		WithHint("a directory that is to be shared is created first, with mkdir -p; a program is a file that may be executed")
}

// AgentNames completes AGENT.
func AgentNames(c agent.Catalog) []string {
	out := []string{fmt.Sprintf("%s\tyour own shell, or a program behind --", agent.Shell)}
	names, _ := c.Names()
	for _, name := range names {
		if a, err := c.Find(name); err == nil && !a.Runtime {
			out = append(out, name+"\t"+a.Title)
		}
	}
	return out
}
