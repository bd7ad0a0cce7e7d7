//go:build !amd64

package gvisor

import "gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"

var sentryFilters, goferFilters []precompiledseccomp.Program
