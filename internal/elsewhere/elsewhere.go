// Package elsewhere is bothy on systems other than Linux: it prints its version, and that sandboxes need
// Linux.
package elsewhere

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/spec"
)

// Main runs a command line and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) > 1 && slices.Contains([]string{"version", "--version", "-v"}, args[1]) {
		fmt.Fprintf(stdout, "bothy %s (%s, %s/%s)\n", program.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return spec.ExitOK
	}
	err := spec.Errorf(spec.ErrSandbox, "sandboxes need Linux, and this is %s/%s", runtime.GOOS, runtime.GOARCH).
		WithHint("run bothy on a Linux machine, or in a virtual machine with Linux on this one")
	if slices.Contains(args, "--json") {
		_ = json.NewEncoder(stderr).Encode(map[string]any{"error": spec.ToWire(err)})
	} else {
		fmt.Fprintf(stderr, "bothy: error: %s\nbothy: hint: %s\n", err, spec.Hint(err))
	}
	return spec.ExitCode(err)
}
