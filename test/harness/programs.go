package harness

import (
	"debug/elf"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Programs returns files of this host that make up an image in which the named programs and /bin/sh run:
// the sources by their paths in the image.
func Programs(t *testing.T, names ...string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			Missing(t, "no image can be made here: %v", err)
		}
		collect(t, files, path, "/bin/"+name)
	}
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		Missing(t, "no image can be made here: %v", err)
	}
	collect(t, files, sh, "/bin/sh")
	return files
}

var library = regexp.MustCompile(`(/\S+) \(0x`)

// collect adds a program and its libraries, as listed by ldd.
func collect(t *testing.T, files map[string]string, from, to string) {
	t.Helper()
	f, err := elf.Open(from)
	if err != nil {
		Missing(t, "no image can be made here: %s: %v", from, err)
	}
	_ = f.Close()
	files[to] = from
	out, err := exec.CommandContext(t.Context(), "ldd", from).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		Missing(t, "no image can be made here: %v", err)
	}
	if err != nil && !strings.Contains(string(out), "not a dynamic executable") {
		Missing(t, "no image can be made here: ldd %s: %v: %s", from, err, out)
	}
	for _, m := range library.FindAllStringSubmatch(string(out), -1) {
		files[m[1]] = m[1]
	}
}
