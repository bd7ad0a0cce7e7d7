package hostcreds

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Host is the user whose tokens Find looks for: a home directory and an environment.
type Host struct {
	Home    string
	Environ []string
}

// lookup returns a variable. An empty one counts as unset, as in the tools.
func (h Host) lookup(name string) (string, bool) {
	for _, kv := range h.Environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, v != ""
		}
	}
	return "", false
}

// firstPath returns the first applicable path of a file, "" for none.
func (h Host) firstPath(places []string) string {
	for _, p := range places {
		first, rest, _ := strings.Cut(p, "/")
		if name, ok := strings.CutPrefix(first, "$"); ok {
			first, _ = h.lookup(name)
		} else if first == "~" {
			first = h.Home
		} else {
			return p
		}
		if filepath.IsAbs(first) {
			return filepath.Join(first, rest)
		}
	}
	return ""
}

// Short writes a path for people.
func (h Host) Short(path string) string {
	if rest, ok := strings.CutPrefix(path, h.Home+"/"); ok && h.Home != "" {
		return "~/" + rest
	}
	return path
}

const maxFile = 1 << 20

// readFile reads a file that only its user, or root, may write. A missing file is empty.
func readFile(path string) (string, error) {
	f, err := store.OpenRegular(path, unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return "", nil
	case errors.Is(err, unix.ELOOP):
		return "", spec.Errorf(spec.ErrDenied, "it is a symbolic link").WithHint("put the file itself there")
	case err != nil:
		return "", err
	}
	defer f.Close()
	if err := judgeFile(f); err != nil {
		return "", err
	}
	data, err := store.ReadAll(f, maxFile)
	return string(data), err
}

// judgeFile refuses a file that others could have written.
func judgeFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int(st.Uid) != os.Geteuid() && st.Uid != 0:
		return spec.Errorf(spec.ErrDenied, "it belongs to another user")
	case info.Mode().Perm()&0o022 != 0:
		return spec.Errorf(spec.ErrDenied, "others may write it: its mode is %04o", info.Mode().Perm()).WithHint("chmod go-w %s", f.Name())
	}
	return nil
}
