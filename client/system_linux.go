package client

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// supported returns why this platform is not supported; nil on Linux.
func supported() error { return nil }

// secretly writes variables where only bothy reads them. They are for the inside: other users of the
// host who list processes and programs must not see them. It returns the file for an option --env-file,
// or nil without variables.
func secretly(vars map[string]string) (*os.File, error) {
	if len(vars) == 0 {
		return nil, nil
	}
	fd, err := unix.MemfdCreate("variables", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("keep variables: %w", err)
	}
	f := os.NewFile(uintptr(fd), "variables")
	var text strings.Builder
	for name, value := range vars {
		if strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			_ = f.Close()
			return nil, spec.Errorf(spec.ErrUsage, "%q is no variable", name)
		}
		text.WriteString(name + "=" + value + "\x00")
	}
	if _, err := f.WriteString(text.String()); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("keep variables: %w", err)
	}
	return f, nil
}
