package harness

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Namespaced are Attributes that make a process run as the caller in a user namespace of its own, in
// which it may do everything.
func (c *Caller) Namespaced() *syscall.SysProcAttr {
	attr := c.Attributes()
	attr.Cloneflags = unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: c.UID, HostID: c.UID, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: c.GID, HostID: c.GID, Size: 1}}
	if attr.Credential != nil { // the id is changed in the namespace
		attr.Credential.NoSetGroups = true
	} else if os.Geteuid() != 0 {
		attr.GidMappingsEnableSetgroups = false
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		attr.AmbientCaps = append(attr.AmbientCaps, c)
	}
	return attr
}
