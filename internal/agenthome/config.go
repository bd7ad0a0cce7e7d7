package agenthome

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/hostcreds"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// Config returns the read-only mounts of the host's configuration of a sandbox's agent. It skips files
// that do not exist at the start.
func (h Homes) Config(sb *spec.Sandbox, homeInside string) []spec.Mount {
	a := h.configured(sb)
	home, err := store.Home()
	if a == nil || err != nil {
		return nil
	}
	var list []spec.Mount
	paths, err := hostpath.Load(h.Keepers.Store)
	if err != nil {
		h.Keepers.Say("the configuration of %s is not brought into sandbox %s: %v", a.Title, sb.Name, err)
		return nil
	}
	rules := workspace.Rules{Home: home, State: h.Keepers.Store.Path(), Paths: paths}
	for _, p := range a.Config {
		path := filepath.Join(home, p)
		if a.Servers != nil { // a variable that moves these moves everything that the agent reads
			path = oauthfile.Lies(p, a.Servers.Directory, home, os.Getenv)
		}
		m, err := rules.Show(path, filepath.Join(homeInside, p))
		switch {
		case errors.Is(err, spec.ErrNotFound) || isShared(sb, m.Target):
		case err != nil:
			h.Keepers.Say("%s is not brought into sandbox %s: %v", hostcreds.Host{Home: home}.Short(path), sb.Name, err)
		default:
			list = append(list, m)
		}
	}
	return list
}

// configured returns the agent whose configuration a sandbox gets, or nil if it gets none.
func (h Homes) configured(sb *spec.Sandbox) *spec.Agent {
	if !sb.Config {
		return nil
	}
	a, _ := h.Agents.In(sb) // a start without it says so
	return a
}

// isShared reports whether a share is mounted at a path or above it.
func isShared(sb *spec.Sandbox, path string) bool {
	return slices.ContainsFunc(slices.Concat(sb.Workspaces, sb.Volumes), func(m spec.Mount) bool {
		return workspace.Within(m.Target, path)
	})
}

// maxConfig bounds a file with MCP servers, in bytes. Claude Code's also holds its history.
const maxConfig = 64 << 20

// servers returns the MCP servers of the host's configuration that hold no secret. It returns none if
// the file cannot be read: an agent may allow comments in its JSON.
func (h Homes) servers(sb *spec.Sandbox) agent.Servers {
	a := h.configured(sb)
	home, err := store.Home()
	if a == nil || a.Servers == nil || err != nil {
		return nil
	}
	path := oauthfile.Lies(a.Servers.File, a.Servers.Directory, home, os.Getenv)
	data, err := store.ReadFile(path, 0, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var list agent.Servers
	var withheld []string
	if err == nil {
		list, withheld, err = agent.ReadServers(a.Servers, data, project(sb))
	}
	if err != nil {
		h.Keepers.Say("the MCP servers in %s are not brought in: %v", hostcreds.Host{Home: home}.Short(path), err)
		return nil
	}
	if len(withheld) > 0 {
		h.Keepers.Say("MCP servers that may hold secrets stay outside: %s", strings.Join(withheld, ", "))
	}
	return list
}

// project returns the directory of the host by which agents know a sandbox's first workspace: its
// repository, or the directory itself. It is empty if the directory is not on the host.
func project(sb *spec.Sandbox) string {
	at := sb.Primary()
	i := slices.IndexFunc(sb.Workspaces, func(m spec.Mount) bool { return workspace.Within(m.Target, at) })
	if i < 0 {
		return ""
	}
	m := sb.Workspaces[i]
	own := filepath.Join(m.Source, strings.TrimPrefix(at, m.Target))
	for dir := own; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == "/" {
			return own
		}
	}
}

// withServers adds the file for an agent's MCP servers to the first files of a home, if it is not among
// them.
func withServers(a *spec.Agent, files []spec.AgentFile, servers agent.Servers) []spec.AgentFile {
	if len(servers) == 0 || slices.ContainsFunc(files, func(f spec.AgentFile) bool { return f.Path == a.Servers.File }) {
		return files
	}
	return append(files, spec.AgentFile{Path: a.Servers.File})
}
