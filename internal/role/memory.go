package role

import (
	"slices"

	"github.com/bothy-dev/bothy/internal/memfile"
)

// MemoryFDs are the descriptors under which a sentry finds files with large pages for the
// memory of what runs inside, if the host lets it have them: one for its own kernel, and one
// for the kernel it becomes when it goes on from an image.
var MemoryFDs = [...]int{passFD - 1, passFD - 2}

// largePagesFlag tells gVisor what a host does about such pages.
const largePagesFlag = "--host-thp-shmem-enabled="

// withMemory opens these files, and tells the sentry with these arguments to expect large
// pages. Where it cannot, the sentry makes files of its own: programs are slower to get
// memory, and all else is the same.
func withMemory(args []string) []string {
	boot := slices.Index(args, "boot")
	if boot < 0 || memfile.Open(MemoryFDs[:]...) != nil {
		return args
	}
	return slices.Insert(slices.Clone(args), boot+1, largePagesFlag+"always")
}
