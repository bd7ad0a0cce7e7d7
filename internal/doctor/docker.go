package doctor

import "os/exec"

// docker tells whether sandboxes with the host's programs can have a Docker of their own. Nothing
// is wrong without.
func docker() Check {
	c := Check{Name: "docker inside", Result: OK}
	for _, name := range []string{"dockerd", "/usr/sbin/dockerd"} { // which is in few users' PATH
		if path, err := exec.LookPath(name); err == nil {
			c.Detail = path + ": bothy run --docker gives a sandbox a daemon of its own"
			return c
		}
	}
	c.Detail = "dockerd is not on this host: for bothy run --docker install docker.io (or docker-ce) here, inside a sandbox, or in an image"
	return c
}
