package hostroot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/spec"
)

// generated are the files of /etc that differ from sandbox to sandbox. The snapshot holds an empty file
// for each, over which Assemble binds the real one.
var generated = []struct {
	name    string
	content func(s source, o *Options) []byte
}{
	{"passwd", func(s source, o *Options) []byte { return s.passwdFile(o.User) }},
	{"group", func(s source, o *Options) []byte { return s.groupFile(o.User) }},
	{"hostname", func(_ source, o *Options) []byte { return []byte(o.Hostname + "\n") }},
	{"hosts", hostsFile},
	{"resolv.conf", resolvConf},
	{"machine-id", machineID},
}

func resolvConf(_ source, o *Options) []byte {
	if len(o.NameServers) == 0 {
		return []byte("# This sandbox has no network.\n")
	}
	var b strings.Builder
	for _, a := range o.NameServers {
		fmt.Fprintf(&b, "nameserver %s\n", a)
	}
	return []byte(b.String())
}

// ownFile is a file of /etc that is the same in every sandbox.
type ownFile struct {
	name    string // at most one directory deep
	content string
}

// ownFiles are those files.
func ownFiles() []ownFile {
	return []ownFile{
		{"nsswitch.conf", nsswitch},
		{"profile.d/bothy.sh", pathProfile + trustProfile()},
		{"environment", strings.Join(trust.Environment(), "\n") + "\n"}, // for su, cron and other users of PAM
	}
}

// nsswitch leaves out the host's lookup daemons, which do not run inside.
const nsswitch = `passwd: files
group: files
shadow: files
gshadow: files
hosts: files dns
networks: files
protocols: files
services: files
ethers: files
rpc: files
`

const pathProfile = `case ":$PATH:" in
*:/.bothy/bin:*) ;;
*) PATH="${` + SearchPathVariable + `:-/.bothy/bin}:$PATH" ;;
esac
export PATH
`

// addOwnFiles completes a fresh copy of /etc.
func (s source) addOwnFiles(dst int) error {
	for _, g := range generated {
		if err := writeFileAt(dst, g.name, nil, 0o644); err != nil {
			return fmt.Errorf("add %s: %w", g.name, err)
		}
	}

	for _, f := range ownFiles() {
		err := addFile(dst, f.name, f.content)
		if err != nil && unlessGone(err) != nil { // the host's profile.d may be a link: then it is not ours
			return fmt.Errorf("add %s: %w", f.name, err)
		}
	}
	if err := unix.Symlinkat("/proc/self/mounts", dst, "mtab"); err != nil {
		return fmt.Errorf("add mtab: %w", err)
	}
	if err := s.addTrust(dst); err != nil {
		return fmt.Errorf("add certificates: %w", err)
	}
	return nil
}

// addFile writes a file in place of any other.
func addFile(dst int, name, content string) error {
	fd, err := openDirs(dst, path.Dir(name), true)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Unlinkat(fd, path.Base(name), 0); err != nil && err != unix.ENOENT {
		return err
	}
	return writeFileAt(fd, path.Base(name), []byte(content), 0o644)
}

func hostsFile(_ source, o *Options) []byte {
	return fmt.Appendf(nil, "127.0.0.1 localhost %s\n::1 localhost ip6-localhost ip6-loopback\n", o.Hostname)
}

// machineID returns a machine-id of the sandbox's own, which reveals nothing about the host's.
func machineID(_ source, o *Options) []byte {
	sum := sha256.Sum256([]byte("bothy machine-id " + o.ID))
	return append(hex.AppendEncode(nil, sum[:16]), '\n')
}

// checkHostname refuses a name that is invalid in /etc/hosts.
func checkHostname(name string) error {
	if name == "" || len(name) > 64 || strings.Trim(name, letters+digits+"-.") != "" || strings.Trim(name, "-.") != name {
		return spec.Errorf(spec.ErrUsage, "host name %q: only letters, digits, '-' and '.' inside are allowed, at most 64", name)
	}
	return nil
}
