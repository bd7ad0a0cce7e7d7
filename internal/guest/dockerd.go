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

// dockerTools is the directory in which the daemon finds our programs before those that they replace.
const dockerTools = "/run/bothy-docker"

// becomeDockerd prepares the sandbox for the Docker daemon, and becomes the daemon. Its third descriptor is
// the daemon's socket.
func becomeDockerd() error {
	sweepDocker()
	if err := linkDockerTools(); err != nil {
		return err
	}
	// Packets of containers leave by the sandbox's network card.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	program, err := lookPath("dockerd", []string{dockerPath}, "/")
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
		"PATH="+dockerTools+":"+strings.TrimPrefix(dockerPath, "PATH="), "HOME=/root", "LANG=C.UTF-8",
		"LISTEN_FDS=1", "LISTEN_PID="+strconv.Itoa(os.Getpid()))
	return unix.Exec(program, append([]string{"dockerd", "--host=fd://"}, dockerFlags(given)...), env)
}

// dockerSettings are the daemon's settings for gVisor's kernel and a network without address
// translation. The sandbox's own daemon.json wins: the daemon refuses a setting that is given twice.
var dockerSettings = []struct{ name, value string }{
	{"storage-driver", "overlay2"}, // no silent fallback: another driver copies an image for each layer
	{"iptables", "false"},          // the kernel has no tables for addresses; the gateway accepts those of containers
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

// givenSettings reads the settings of the sandbox's own daemon.json, which need not exist.
func givenSettings(path string) (map[string]json.RawMessage, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(text)) == "" {
		return nil, nil
	}
	var given map[string]json.RawMessage
	if err == nil {
		if err = json.Unmarshal(text, &given); err != nil {
			err = fmt.Errorf("it is not a JSON object: %w", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return given, nil
}

// sweepDocker removes process ids of an earlier start, which the root layer has kept: the daemon would
// take such a number for itself, or for another program's.
func sweepDocker() {
	for _, name := range []string{"/run/docker.pid", "/run/docker", "/run/containerd"} {
		_ = os.RemoveAll(name) // files still in use stay, and the daemon reports that
	}
}

// linkDockerTools puts our programs into the directory that the daemon searches first.
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
