package system

import (
	"os"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/doctor"
)

// TestFindings checks the singular and the plural in the error.
func TestFindings(t *testing.T) {
	out, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	a := &app{&cmdline.App{Console: &console.Console{Out: out}}}
	bad := doctor.Check{Result: doctor.Fail}
	for want, checks := range map[string][]doctor.Check{"1 check failed: ": {bad}, "2 checks failed: ": {bad, bad}} {
		if err := a.findings(checks); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
	if err := a.findings(nil); err != nil {
		t.Errorf("%v", err)
	}
}
