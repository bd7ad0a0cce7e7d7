package cli

import (
	"errors"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeLinks are links, and files and directories, which say nothing. Nothing may be asked of
// what is in a directory that a sandbox writes to.
type fakeLinks map[string]string

func (f fakeLinks) read(t *testing.T) func(name string) (string, error) {
	return func(name string) (string, error) {
		target, ok := f[name]
		switch {
		case !ok:
			return "", &fs.PathError{Op: "readlink", Path: name, Err: unix.ENOENT}
		case target == "denied":
			return "", &fs.PathError{Op: "readlink", Path: name, Err: unix.EACCES}
		case target == "inside":
			t.Errorf("%s was looked at", name)
		case target != "":
			return target, nil
		}
		return "", &fs.PathError{Op: "readlink", Path: name, Err: unix.EINVAL}
	}
}

func TestWay(t *testing.T) {
	links := fakeLinks{
		"/u": "", "/u/proj": "", "/u/proj/out": "inside", "/u/proj/sub": "inside", "/u/other": "",
		"/u/build": "/u/proj/out", "/u/relative": "proj/out", "/u/twice": "build/deep", "/u/top": "proj",
		"/u/w": "proj/sub", "/u/mine": "/u/other", "/u/other/back": "..", "/u/project": "",
		"/u/loop": "pool", "/u/pool": "loop", "/u/self": "self/x", "/u/shut": "denied",
	}
	w := way{written: []string{"/u/proj/sub", "/u/proj", "/v"}, readlink: links.read(t)}
	for _, tt := range []struct {
		cwd, path string
		top, rest string
		wrong     error
	}{
		{"/", "/u/other", "", "/u/other", nil},
		{"/", "/u/mine", "", "/u/other", nil},
		{"/u", "mine/back/other", "", "/u/other", nil},
		{"/u", ".//other/.", "", "/u/other", nil},
		{"/u", "", "", "/u", nil},
		{"/u", "../../..", "", "/", nil},
		{"/u", "project", "", "/u/project", nil},

		{"/", "/u/proj", "/u/proj", ".", nil},
		{"/", "/u/top/", "/u/proj", ".", nil},
		{"/", "/u/proj/out/x", "/u/proj", "./out/x", nil},
		{"/", "/u/build", "/u/proj", "./out", nil},
		{"/", "/u/relative/x", "/u/proj", "./out/x", nil},
		{"/u", "twice/x", "/u/proj", "./out/deep/x", nil},
		{"/u", "w/../out", "/u/proj", "./sub/../out", nil},
		{"/u", "proj/sub/../../other", "/u/proj", "./sub/../../other", nil},
		{"/u", "proj/../mine", "", "/u/other", nil},
		{"/u/proj/sub", "x", "/u/proj", "sub/x", nil},
		{"/u/proj/sub", "", "/u/proj", "sub", nil},
		{"/u/proj/sub", "../out/x", "/u/proj", "./out/x", nil},
		{"/u/proj/sub", "../../mine", "", "/u/other", nil},
		{"/u/proj/sub", "out/../../../other", "/u/proj", "sub/out/../../../other", nil},

		{"/u", "none", "", "", fs.ErrNotExist},
		{"/u", "none/../other", "", "", fs.ErrNotExist},
		{"/u", "shut", "", "", fs.ErrPermission},
		{"/u", "loop", "", "", unix.ELOOP},
		{"/u", "self", "", "", unix.ELOOP},
		{"(unreachable)/u", "other", "", "", fs.ErrNotExist},
		{"(unreachable)/u", "/u/other", "", "/u/other", nil},
	} {
		top, rest, err := w.find(tt.cwd, tt.path)
		if top != tt.top || rest != tt.rest || !errors.Is(err, tt.wrong) {
			t.Errorf("%s, %s: %q, %q, %v; want %q, %q, %v", tt.cwd, tt.path, top, rest, err, tt.top, tt.rest, tt.wrong)
		}
	}
}
