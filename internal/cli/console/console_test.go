package console

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// reported returns the text and the exit code that Report gives for an error.
func reported(t *testing.T, c *Console, err error) (string, int) {
	t.Helper()
	r, w, perr := os.Pipe()
	if perr != nil {
		t.Fatal(perr)
	}
	defer r.Close()
	c.Err = w
	code := c.Report(err)
	w.Close()
	text, rerr := io.ReadAll(r)
	if rerr != nil {
		t.Fatal(rerr)
	}
	return string(text), code
}

// TestReportApart checks that joined errors are printed one by one, and that equal hints are printed
// once.
func TestReportApart(t *testing.T) {
	none := func(name string) error {
		return spec.Errorf(spec.ErrNotFound, "no sandbox named %q", name).WithHint("bothy ls shows what there is")
	}
	used := spec.Errorf(spec.ErrConflict, "sandbox c is in use").WithHint("stop it first")
	const want = `bothy: error: no sandbox named "a"
bothy: hint: bothy ls shows what there is
bothy: error: no sandbox named "b"
bothy: error: sandbox c is in use
bothy: hint: stop it first
`
	got, code := reported(t, &Console{Command: "bothy"}, Join([]error{none("a"), nil, none("b"), used}))
	if got != want || code != spec.ExitNotFound {
		t.Errorf("%d\n%s", code, got)
	}
	if err := Join([]error{nil, nil}); err != nil {
		t.Errorf("%v", err)
	}
	if got, _ := reported(t, &Console{}, &spec.Error{Op: "begin", Err: Join([]error{none("a"), used})}); !strings.HasPrefix(got, "bothy: error: begin: no") {
		t.Errorf("%s", got)
	}
}

// TestReportAsPlugin checks that hints name docker sandbox commands to its users.
func TestReportAsPlugin(t *testing.T) {
	c := &Console{Command: "docker sandbox", Verbs: []string{"ls", "run", "rm"}}
	err := spec.Errorf(nil, "x").WithHint("bothy ls shows what there is; bothy rm -f NAME; the newer bothy; bothy-build")
	if got, _ := reported(t, c, err); !strings.HasSuffix(got, "hint: docker sandbox ls shows what there is; docker sandbox rm -f NAME; the newer bothy; bothy-build\n") {
		t.Errorf("%s", got)
	}
}
