package harness

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Writings are what a value could be written down as: in clear, in base64 at
// each alignment, in hexadecimal.
func Writings(value string) map[string][]byte {
	out := map[string][]byte{"clear": []byte(value), "hex": []byte(hex.EncodeToString([]byte(value)))}
	for shift := range 3 {
		for name, e := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			text := e.EncodeToString([]byte(strings.Repeat("x", shift) + value))
			// What stands at the ends depends on the neighbours.
			out[fmt.Sprintf("%s+%d", name, shift)] = []byte(text[4 : len(text)-4])
		}
	}
	return out
}

// Absent complains about every spelling of the value that stands in data.
func Absent(t *testing.T, where string, data []byte, value string) {
	t.Helper()
	for how, text := range Writings(value) {
		if bytes.Contains(data, text) {
			t.Errorf("%s has the value, in %s", where, how)
		}
	}
}

// AbsentInFiles looks into every regular file below a directory. One that is gone when it is
// looked into, as what is being written often is, has no value any more.
func AbsentInFiles(t *testing.T, dir, value string) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && strings.HasSuffix(path, "/"+filepath.Join("work", "work")) {
			if info, e := d.Info(); e == nil && info.Mode().Perm() == 0 {
				return fs.SkipDir // of an overlay that is mounted: nobody but the kernel puts anything there
			}
		}
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		files++
		Absent(t, path, data, value)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return files
}

// AbsentInProcesses looks at what any process of the host was started with.
func AbsentInProcesses(t *testing.T, value string) (seen int) {
	t.Helper()
	for _, what := range []string{"cmdline", "environ"} {
		files, _ := filepath.Glob("/proc/[0-9]*/" + what)
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				continue // gone, or somebody else's
			}
			seen++
			Absent(t, f, data, value)
		}
	}
	return seen
}
