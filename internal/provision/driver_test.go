package provision

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/spec"
)

// TestPlanCapabilities checks that a plan refuses a sandbox that its driver cannot run, says what helps, and
// accepts all others.
func TestPlanCapabilities(t *testing.T) {
	all := driver.Capabilities{MemoryImage: true, Fork: true, ImageRoot: true, RootLimit: true, LiveDirectories: true}
	for name, tt := range map[string]struct {
		lack  func(*driver.Capabilities)
		req   spec.Request
		plain spec.Request // a similar request that needs less
		bare  bool         // without a workspace
	}{
		"image root": {
			lack: func(c *driver.Capabilities) { c.ImageRoot = false },
			req:  spec.Request{Agent: "shell", Template: "debian:13"}, plain: spec.Request{Agent: "shell", Template: spec.TemplateHost},
		},
		"image root of a directory": {
			lack: func(c *driver.Capabilities) { c.ImageRoot = false },
			req:  spec.Request{Agent: "shell", Template: "./app"}, plain: spec.Request{Agent: "shell"},
		},
		"root limit": {
			lack: func(c *driver.Capabilities) { c.RootLimit = false },
			req:  spec.Request{Agent: "shell", Limits: spec.Limits{Disk: 1 << 30}}, plain: spec.Request{Agent: "shell", Limits: spec.Limits{Memory: 1 << 30}},
		},
		"live directories": {
			lack: func(c *driver.Capabilities) { c.LiveDirectories = false },
			req:  spec.Request{Agent: "shell", WorkspaceMode: spec.WorkspaceReview}, plain: spec.Request{Agent: "shell"}, bare: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, project := provisioner(t, settings.Settings{})
			tt.req.Workspaces = []string{project}
			if !tt.bare {
				tt.plain.Workspaces = []string{project}
			}
			few := all
			tt.lack(&few)
			p.Engine.Drivers = driver.Table{driver.GVisor: few}
			if _, err := p.Plan(tt.req, false); !errors.Is(err, spec.ErrUsage) || spec.Hint(err) == "" {
				t.Errorf("%v (hint: %s)", err, spec.Hint(err))
			}
			_, err := p.Plan(tt.plain, false)
			must(t, err)
			p.Engine.Drivers = driver.Table{driver.GVisor: all}
			_, err = p.Plan(tt.req, false)
			must(t, err)
		})
	}
	p, project := provisioner(t, settings.Settings{})
	p.Engine.Drivers = driver.Table{"pod": all}
	if _, err := p.Plan(spec.Request{Agent: "shell", Workspaces: []string{filepath.Clean(project)}}, false); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a driver that this build lacks: %v", err)
	}
}
