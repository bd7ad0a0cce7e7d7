package runs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
)

// captured returns an app that prints into a file, and a function that reads the file.
func captured(t *testing.T) (a *app, printed func() string) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	t.Cleanup(func() { out.Close() })
	return newApp(&cmdline.App{Console: &console.Console{In: os.Stdin, Out: out, Err: out, Command: "bothy"}}), func() string {
		b, err := os.ReadFile(out.Name())
		must(t, err)
		return string(b)
	}
}
