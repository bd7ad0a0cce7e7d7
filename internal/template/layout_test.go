package template

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLayoutOrProject checks that an index.json alone does not make a project an image, and that the
// Dockerfile is found in any case.
func TestLayoutOrProject(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("index.json", "{}")
	want := write("Dockerfile", "FROM scratch")
	if at, file := dockerfileAt(dir, true); at != dir || file != want {
		t.Errorf("%q in %q", file, at)
	}
	write("oci-layout", "{}")
	if _, file := dockerfileAt(dir, true); file != "" {
		t.Errorf("%s is built, and not the image used", file)
	}
	if file := dockerfileIn(dir); file != want {
		t.Errorf("%q", file)
	}
}
