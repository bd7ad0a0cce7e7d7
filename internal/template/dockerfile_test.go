package template

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDockerfileAt(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"Containerfile", "dockerfile", "Dockerfile"} { // by rising precedence
		want := filepath.Join(dir, name)
		if err := os.WriteFile(want, []byte("FROM scratch\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if in, file := dockerfileAt(dir, true); in != dir || file != want {
			t.Errorf("%s in %s, not %s", file, in, want)
		}
		if in, file := dockerfileAt(want, false); in != dir || file != want {
			t.Errorf("%s means %s in %s", want, file, in)
		}
	}
}
