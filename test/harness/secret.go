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

// Writings returns the encodings in which a value may be found: in clear, in base64 at each alignment,
// in hexadecimal.
func Writings(value string) map[string][]byte {
	out := map[string][]byte{"clear": []byte(value), "hex": []byte(hex.EncodeToString([]byte(value)))}
	for shift := range 3 {
		for name, e := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			text := e.EncodeToString([]byte(strings.Repeat("x", shift) + value))
			// The characters at the ends depend on the neighbours.
			out[fmt.Sprintf("%s+%d", name, shift)] = []byte(text[4 : len(text)-4])
		}
	}
	return out
}

// Absent reports every spelling of the value that data contains.
func Absent(t *testing.T, where string, data []byte, value string) {
	t.Helper()
	for how, text := range Writings(value) {
		if bytes.Contains(data, text) {
			t.Errorf("%s has the value, in %s", where, how)
		}
	}
}

// AbsentInFiles searches every regular file below a directory. A file that vanishes before it is read,
// as temporary files often do, does not hold the value any more.
func AbsentInFiles(t *testing.T, dir, value string) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && strings.HasSuffix(path, "/"+filepath.Join("work", "work")) {
			if info, e := d.Info(); e == nil && info.Mode().Perm() == 0 {
				return fs.SkipDir // of a mounted overlay: only the kernel puts files there
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

// AbsentInProcesses searches the arguments and the environment of every process of the host.
func AbsentInProcesses(t *testing.T, value string) (seen int) {
	t.Helper()
	for _, what := range []string{"cmdline", "environ"} {
		files, _ := filepath.Glob("/proc/[0-9]*/" + what)
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				continue // gone, or another user's
			}
			seen++
			Absent(t, f, data, value)
		}
	}
	return seen
}
