package guest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/trust"
)

// RuncName is the name under which the sandbox's Docker finds the program that starts containers.
const RuncName = "runc"

// containerTrust is the directory of package trust's files in a container. It is in the container's
// /dev, which is in memory, so that none of them gets into an image.
const containerTrust = "/dev/bothy-ca"

// maxContainer bounds the description of a container, in bytes.
const maxContainer = 16 << 20

// Runc makes a container trust the sandbox's authority, removes capabilities that the sandbox lacks, and
// becomes the real runc. The sandbox's own Docker wrote the container's description: none of this is a
// protection.
func Runc(args []string) int {
	if err := prepareContainer(args); err != nil {
		fmt.Fprintf(os.Stderr, "bothy: fit the container into the sandbox: %v\n", err)
		return 1
	}
	path, err := lookPath(RuncName, []string{dockerPath}, "/")
	if err == nil {
		err = unix.Exec(path, append([]string{RuncName}, args...), os.Environ())
	}
	fmt.Fprintf(os.Stderr, "bothy: runc: %v\n", err)
	return 127
}

// prepareContainer changes the description for a call of runc, if the call has one.
func prepareContainer(args []string) error {
	file, whole := describedBy(args)
	if file == "" {
		return nil
	}
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxContainer {
		err = errors.New("its description is too large")
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := trusting(text, whole)
	if err != nil || changed == nil {
		return err
	}
	return os.WriteFile(file, changed, info.Mode().Perm())
}

// describedBy returns the file that describes what a call of runc starts: a whole container, or one more
// process of it. For other calls it is empty.
func describedBy(args []string) (file string, whole bool) {
	for i, a := range args {
		switch a {
		case "create", "run":
			return filepath.Join(cmp.Or(option(args[i+1:], "--bundle", "-b"), "."), "config.json"), true
		case "exec":
			return option(args[i+1:], "--process", "-p"), false
		case "start", "delete", "kill", "state", "ps", "events", "pause", "resume", "update", "spec", "list", "features", "checkpoint", "restore":
			return "", false
		}
	}
	return "", false
}

func option(args []string, names ...string) string {
	for i, a := range args {
		for _, name := range names {
			if value, ok := strings.CutPrefix(a, name+"="); ok {
				return value
			}
			if a == name && i+1 < len(args) {
				return args[i+1]
			}
		}
	}
	return ""
}

// trusting adds to a description the variables that name the authorities, and the mounts of their files.
// A container without its own /dev has no place for them. The result is nil if nothing needs to change.
func trusting(text []byte, whole bool) ([]byte, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	had, err := bounding()
	if err != nil {
		return nil, err
	}
	if !whole {
		if err := errors.Join(dropCapabilities(doc, had), addTrust(doc)); err != nil {
			return nil, err
		}
		return json.Marshal(doc)
	}
	var mounts []json.RawMessage
	var process map[string]json.RawMessage
	if err := errors.Join(decode(doc["mounts"], &mounts), decode(doc["process"], &process)); err != nil {
		return nil, err
	}
	if process == nil {
		return nil, nil
	}
	if err := dropCapabilities(process, had); err != nil {
		return nil, err
	}
	if ownDev(mounts) {
		show, err := json.Marshal(map[string]any{
			"destination": containerTrust, "type": "bind", "source": trust.Dir, "options": []string{"rbind", "ro", "nosuid", "nodev", "noexec"},
		})
		if err == nil {
			doc["mounts"], err = json.Marshal(append(mounts, show))
		}
		if err = errors.Join(err, addTrust(process)); err != nil {
			return nil, err
		}
	}
	if doc["process"], err = json.Marshal(process); err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}

func decode(text json.RawMessage, into any) error {
	if text == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// ownDev reports whether /dev is a file system in memory.
func ownDev(mounts []json.RawMessage) bool {
	for _, m := range mounts {
		var at struct{ Destination, Type string }
		if json.Unmarshal(m, &at) == nil && at.Destination == "/dev" {
			return at.Type == "tmpfs"
		}
	}
	return false
}

// addTrust gives a process those of the variables that it does not set itself.
func addTrust(process map[string]json.RawMessage) error {
	var env []string
	if err := decode(process["env"], &env); err != nil {
		return err
	}
	set := map[string]bool{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		set[name] = true
	}
	for _, kv := range trust.Environment() {
		if name, _, _ := strings.Cut(kv, "="); !set[name] {
			env = append(env, strings.ReplaceAll(kv, trust.Dir, containerTrust))
		}
	}
	text, err := json.Marshal(env)
	process["env"] = text
	return err
}

// capabilityNames are the names of capabilities, by number.
const capabilityNames = `CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
	NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
	SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG
	WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`

// bounding returns the capabilities that a process of the sandbox can have at most.
func bounding() ([]string, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		value, ok := strings.CutPrefix(line, "CapBnd:")
		if !ok {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return nil, err
		}
		return namedCapabilities(set), nil
	}
	return nil, errors.New("/proc/self/status has no CapBnd")
}

func namedCapabilities(set uint64) (list []string) {
	for i, name := range strings.Fields(capabilityNames) {
		if set&(1<<i) != 0 {
			list = append(list, "CAP_"+name)
		}
	}
	return list
}

// dropCapabilities removes capabilities from a process that its sandbox lacks: a privileged container asks
// for all of them, and runc would refuse to start it.
func dropCapabilities(process map[string]json.RawMessage, had []string) error {
	var sets map[string][]string
	if err := decode(process["capabilities"], &sets); err != nil || len(sets) == 0 {
		return err
	}
	for kind, set := range sets {
		sets[kind] = slices.DeleteFunc(set, func(name string) bool { return !slices.Contains(had, name) })
	}
	var err error
	process["capabilities"], err = json.Marshal(sets)
	return err
}
