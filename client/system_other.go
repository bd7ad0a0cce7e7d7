//go:build !linux

package client

import (
	"os"
	"runtime"

	"github.com/bothy-dev/bothy/spec"
)

// supported is why nothing can be done here.
func supported() error {
	return spec.Errorf(spec.ErrSandbox, "sandboxes need Linux, and this is %s/%s", runtime.GOOS, runtime.GOARCH)
}

// secretly refuses all variables, and so what would need them.
func secretly(map[string]string) (*os.File, error) { return nil, supported() }
