package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// A project is no image because it has a file that images have, too; what is to be built is
// looked for whatever else there is.
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
