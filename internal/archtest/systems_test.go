package archtest

import (
	"os"
	"os/exec"
	"testing"
)

// TestOtherSystems checks that the command line, the client and the public types build for other
// systems, too. Functions that need Linux return an error there.
func TestOtherSystems(t *testing.T) {
	for _, target := range [][2]string{{"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}} {
		t.Run(target[0]+"/"+target[1], func(t *testing.T) {
			cmd := exec.Command("go", "vet", "./cmd/bothy", "./client", "./spec")
			cmd.Dir = "../.."
			cmd.Env = append(os.Environ(), "GOOS="+target[0], "GOARCH="+target[1], "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
