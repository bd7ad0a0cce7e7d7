package role

import (
	"slices"

	"github.com/bothy-dev/bothy/internal/memfile"
)

// MemoryFD is the descriptor under which a sentry finds a file with large pages for the
// memory of what runs inside, if the host lets it have one.
const MemoryFD = passFD - 1

// largePagesFlag tells gVisor what a host does about such pages.
const largePagesFlag = "--host-thp-shmem-enabled="

// withMemory opens this file, and tells the sentry with these arguments to expect large
// pages. Where it cannot, the sentry makes a file of its own: programs are slower to get
// memory, and all else is the same.
func withMemory(args []string) []string {
	boot := slices.Index(args, "boot")
	if boot < 0 || memfile.Open(MemoryFD) != nil {
		return args
	}
	return slices.Insert(slices.Clone(args), boot+1, largePagesFlag+"always")
}
