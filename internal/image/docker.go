package image

import (
	"os"
	"path/filepath"
	"strings"
)

// DockerSocket returns the socket of this machine's Docker: the one in DOCKER_HOST, or else the first
// usual path that exists. It is empty if there is none. A Docker that is reached over a network does not
// count.
func DockerSocket() string {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		path, ok := strings.CutPrefix(host, "unix://")
		if !ok {
			return ""
		}
		return socketAt(path)
	}
	home, _ := os.UserHomeDir()
	for _, place := range []struct{ dir, name string }{
		{os.Getenv("XDG_RUNTIME_DIR"), "docker.sock"},
		{home, ".docker/desktop/docker.sock"},
		{home, ".docker/run/docker.sock"},
		{"/var/run", "docker.sock"},
	} {
		if place.dir == "" {
			continue
		}
		if path := socketAt(filepath.Join(place.dir, place.name)); path != "" {
			return path
		}
	}
	return ""
}

// socketAt is the path of a socket, or empty if it is not one.
func socketAt(path string) string {
	if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeSocket == 0 {
		return ""
	}
	return path
}
