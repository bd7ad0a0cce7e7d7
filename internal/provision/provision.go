// Package provision decides how a new sandbox is made. A request, from a command line or from a program,
// becomes a plan; the plan becomes a sandbox, which is lent its loans, started and set up. The package asks
// no person anything and prints nothing: the caller shows the notes of a plan, and asks its questions.
package provision

import (
	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/internal/setup"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/template"
	"github.com/bothy-dev/bothy/internal/workspace"
)

// Provisioner makes sandboxes in one state directory.
type Provisioner struct {
	Engine   *engine.Engine
	Settings settings.Settings
	Watcher  Watcher
}

// Watcher is told of a plan's progress.
type Watcher interface {
	template.Watcher
	// Installing returns a function that receives the progress of an installation, and one to call at
	// its end.
	Installing() (step agentprogram.Progress, end func())
	// SettingUp returns the viewer of a sandbox's set-up.
	SettingUp() setup.Viewer
}

// Agents returns the agents that a person can choose: the built-in ones, and those described beside
// the settings.
func Agents() agent.Catalog {
	path, err := settings.Path()
	if err != nil {
		return agent.NewCatalog("") // no home, no settings
	}
	return agent.NewCatalog(agentsBeside(path))
}

// WorkspaceRules returns the rules for directories that may be shared. With force, a home directory may be.
func WorkspaceRules(e *engine.Engine, force bool) (workspace.Rules, error) {
	home, err := store.Home()
	if err != nil {
		home = ""
	}
	g, err := e.Paths()
	return workspace.Rules{Home: home, State: e.Store.Path(), Force: force, Paths: g}, err
}
