//go:build !linux

package client

import (
	"os"
	"runtime"

	"github.com/bothy-dev/bothy/spec"
)

// supported returns why this platform is not supported.
func supported() error {
	return spec.Errorf(spec.ErrSandbox, "sandboxes need Linux, and this is %s/%s", runtime.GOOS, runtime.GOARCH)
}

// secretly fails for any variables, because other platforms cannot hide them.
func secretly(map[string]string) (*os.File, error) { return nil, supported() }
