package driver

import (
	"slices"

	"github.com/bothy-dev/bothy/spec"
)

// GVisor is the name of the driver that runs new sandboxes.
const GVisor = "gvisor"

// Capabilities are the abilities of a driver that not every driver has. They are data: a command reads them
// without linking the driver. Package drivertest compares them with the driver.
type Capabilities struct {
	MemoryImage     bool // a wall's memory can be saved, and programs continue from it
	Fork            bool // several walls can continue from one memory image
	ImageRoot       bool // the root can be a file with a file system: Machine.Image
	RootLimit       bool // the size of the writable layer can be bounded: Machine.RootLimit
	LiveDirectories bool // mounts show directories of the host as they are, in both directions
}

// Table holds the capabilities of drivers, by name. Nil means the drivers of this build.
type Table map[string]Capabilities

// drivers are the drivers of this build.
var drivers = Table{
	GVisor: {MemoryImage: true, Fork: true, ImageRoot: true, RootLimit: true, LiveDirectories: true},
}

// Find returns the capabilities of a driver. An empty name means [GVisor].
func (t Table) Find(name string) (Capabilities, error) {
	if t == nil {
		t = drivers
	}
	if name == "" {
		name = GVisor
	}
	c, ok := t[name]
	if !ok {
		return c, spec.Errorf(spec.ErrConflict, "this bothy has no driver named %q", name).
			WithHint("use the bothy that made the sandbox, or make a new sandbox")
	}
	return c, nil
}

// Check refuses a sandbox that its driver cannot run as described.
func (c Capabilities) Check(sb *spec.Sandbox) error {
	if sb.Image != nil {
		if err := c.CheckImageRoot(sb.Driver); err != nil {
			return err
		}
	}
	if sb.Limits.Disk > 0 && !c.RootLimit {
		return lacksAbility(sb.Driver, "limit the disk space of a sandbox").WithHint("leave out --disk")
	}
	shared := slices.ContainsFunc(slices.Concat(sb.Workspaces, sb.Volumes), func(m spec.Mount) bool { return !sb.Clones(m) })
	if shared && !c.LiveDirectories {
		return lacksAbility(sb.Driver, "share directories of this host").WithHint("work on a copy of the repository: --workspace %s", spec.WorkspaceClone)
	}
	return nil
}

// CheckImageRoot refuses a root file system from a container image.
func (c Capabilities) CheckImageRoot(name string) error {
	if !c.ImageRoot {
		return lacksAbility(name, "start from a container image").WithHint("use the host's programs: --template %s", spec.TemplateHost)
	}
	return nil
}

// CheckMemory refuses to save the memory of a sandbox's programs, or to continue from it. With fork, other
// sandboxes are to continue from it.
func (c Capabilities) CheckMemory(name string, fork bool) error {
	switch {
	case !c.MemoryImage:
		return lacksAbility(name, "keep the memory of programs").WithHint("keep, restore or fork the files alone: leave out --full, or use --files")
	case fork && !c.Fork:
		return lacksAbility(name, "continue the programs of one sandbox in another").WithHint("fork the files alone: --files")
	}
	return nil
}

func lacksAbility(name, action string) *spec.Error {
	return spec.Errorf(spec.ErrUsage, "the driver %s cannot %s", name, action)
}
