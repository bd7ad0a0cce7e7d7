package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CopyRules copies a sandbox's rules to the directory of another sandbox, with the uploads under rules that
// limit them, and the script of its mock.
func (d Sandbox) CopyRules(to Sandbox) error {
	return AtOnce(
		func() error { return CopyFile(d.Policy(), to.Policy()) },
		func() error { return CopyFile(d.Mock(), to.Mock()) },
		func() error { return CopyFile(d.Uploads(), to.Uploads()) },
	)
}

// CopyFile copies a file, if it exists.
func CopyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(from), err)
	}
	return WriteFile(to, data)
}
