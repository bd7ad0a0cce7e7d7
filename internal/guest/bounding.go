package guest

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
)

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
