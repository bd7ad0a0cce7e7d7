package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/trust"
)

// DockerdName is the role that becomes a sandbox's Docker daemon.
const DockerdName = "bothy-docker"

// dockerTools is where the daemon finds programs of ours before those that they stand in for.
const dockerTools = "/run/bothy-docker"

// Dockerd makes ready what the Docker daemon needs and becomes it. Its third descriptor is the
// socket that the daemon answers at.
func Dockerd() int {
	if err := becomeDockerd(); err != nil {
		fmt.Fprintf(os.Stderr, "bothy: start dockerd: %v\n", err)
		return 1
	}
	return 0
}

func becomeDockerd() error {
	sweepDocker()
	if err := linkDockerTools(); err != nil {
		return err
	}
	// Packets of containers leave by the sandbox's card.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	path := dockerPath
	program, err := lookPath("dockerd", []string{path}, "/")
	if err != nil {
		return err
	}
	given, err := givenSettings("/etc/docker/daemon.json")
	if err != nil {
		return err
	}
	if _, err := unix.FcntlInt(3, unix.F_SETFD, 0); err != nil {
		return fmt.Errorf("pass the socket on: %w", err)
	}
	env := append(trust.Environment(),
		"PATH="+dockerTools+":"+strings.TrimPrefix(path, "PATH="), "HOME=/root", "LANG=C.UTF-8",
		"LISTEN_FDS=1", "LISTEN_PID="+strconv.Itoa(os.Getpid()))
	return unix.Exec(program, append([]string{"dockerd", "--host=fd://"}, dockerFlags(given)...), env)
}

// dockerSettings are what gVisor's kernel, and a network without translation of addresses, ask of
// the daemon. What the sandbox's own daemon.json sets is left to that: the daemon takes no
// setting twice.
var dockerSettings = []struct{ name, value string }{
	{"storage-driver", "overlay2"}, // never another one unasked: an image would be copied for each layer
	{"iptables", "false"},          // the kernel has no tables for addresses; the gateway takes those of containers
	{"ip6tables", "false"},
	{"data-root", DockerData},
}

func dockerFlags(given map[string]json.RawMessage) (flags []string) {
	for _, s := range dockerSettings {
		if _, has := given[s.name]; !has {
			flags = append(flags, "--"+s.name+"="+s.value)
		}
	}
	return flags
}

// givenSettings reads what the sandbox's own daemon.json sets; nothing, without one.
func givenSettings(path string) (map[string]json.RawMessage, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(text)) == "" {
		return nil, nil
	}
	var given map[string]json.RawMessage
	if err == nil {
		if err = json.Unmarshal(text, &given); err != nil {
			err = fmt.Errorf("it is no JSON object: %w", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return given, nil
}

// sweepDocker removes what tells of processes of an earlier start, which the root layer has
// kept: the daemon would take a number for itself, or another program's.
func sweepDocker() {
	for _, name := range []string{"/run/docker.pid", "/run/docker", "/run/containerd"} {
		_ = os.RemoveAll(name) // what is still in use stays, and the daemon says so
	}
}

// linkDockerTools puts our own programs where the daemon looks first.
func linkDockerTools() error {
	if err := os.RemoveAll(dockerTools); err != nil {
		return err
	}
	if err := os.MkdirAll(dockerTools, 0o755); err != nil {
		return err
	}
	for _, name := range []string{RuncName, IptablesName, IP6tablesName} {
		if err := os.Symlink(Path, filepath.Join(dockerTools, name)); err != nil {
			return err
		}
	}
	return nil
}
