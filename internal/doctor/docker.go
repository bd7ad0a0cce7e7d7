package doctor

import (
	"os"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/hostroot"
)

// docker checks whether sandboxes with the host's programs can have their own Docker. It is not a fault
// if they cannot.
func docker() Check {
	c := Check{Name: "docker inside", Result: OK}
	for _, dir := range filepath.SplitList(hostroot.Path) { // where a sandbox looks; the caller's PATH may differ
		file := filepath.Join(dir, "dockerd")
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			c.Detail = file + ": bothy run --docker gives a sandbox a daemon of its own"
			return c
		}
	}
	c.Detail = "dockerd is not on this host: for bothy run --docker install docker.io (or docker-ce) here, inside a sandbox, or in an image"
	return c
}
