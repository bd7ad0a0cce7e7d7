package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Destination decides, as cp does, where a copy of something called name goes
// when path was asked for: into the directory dir, renamed to rename unless
// that is empty. A name of "." stands for the contents of a directory.
func Destination(path, name string) (dir, rename string, err error) {
	clean := filepath.Clean(path)
	info, err := os.Stat(clean)
	switch {
	case err == nil && info.IsDir():
		if name == "." {
			return clean, "", nil
		}
		return clean, name, nil
	case err == nil:
		if strings.HasSuffix(path, "/") || name == "." {
			return "", "", fmt.Errorf("%s is not a directory", clean)
		}
		return filepath.Dir(clean), filepath.Base(clean), nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", "", err
	}
	if name == "." {
		if err := os.Mkdir(clean, 0o755); err != nil {
			return "", "", err
		}
		return clean, "", nil
	}
	if strings.HasSuffix(path, "/") {
		return "", "", fmt.Errorf("directory %s does not exist", clean)
	}
	return filepath.Dir(clean), filepath.Base(clean), nil
}
