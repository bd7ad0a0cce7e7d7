package acp

import (
	"encoding/json"
	"fmt"
	"path"
)

// Methods that name a directory to work in. The first makes a session, the others continue one.
const (
	methodNew    = "session/new"
	methodLoad   = "session/load"
	methodResume = "session/resume"
	methodFork   = "session/fork"
)

func setsUpSession(method string) bool {
	return method == methodNew || method == methodLoad || method == methodResume || method == methodFork
}

// MCPServer is a server that an editor wants its agent to use.
type MCPServer struct {
	Name    string
	Type    string // empty: a program, else http, sse or another word
	Command string
	Args    []string
	Env     []string // names of variables
	URL     string
	Headers []string // names of headers
}

// setup is a request to set up a session.
type setup struct {
	params  object
	dir     string
	more    []string
	servers []MCPServer
	raw     []json.RawMessage // of servers
}

func parseSetup(params json.RawMessage) (s setup, err error) {
	if s.params, err = parseObject(orEmpty(params)); err != nil {
		return s, err
	}
	if s.dir = s.params.textOf("cwd"); !path.IsAbs(s.dir) {
		return s, fmt.Errorf("cwd %q is not an absolute path", s.dir)
	}
	if raw := s.params.member("additionalDirectories"); raw != nil {
		if err := json.Unmarshal(raw, &s.more); err != nil {
			return s, fmt.Errorf("additionalDirectories: %w", err)
		}
	}
	if raw := s.params.member("mcpServers"); raw != nil {
		if err := json.Unmarshal(raw, &s.raw); err != nil {
			return s, fmt.Errorf("mcpServers: %w", err)
		}
	}
	for _, raw := range s.raw {
		one, err := parseServer(raw)
		if err != nil {
			return s, fmt.Errorf("mcpServers: %w", err)
		}
		s.servers = append(s.servers, one)
	}
	return s, nil
}

func parseServer(raw json.RawMessage) (m MCPServer, err error) {
	o, err := parseObject(raw)
	if err != nil {
		return m, err
	}
	m.Name, m.Type, m.Command, m.URL = o.textOf("name"), o.textOf("type"), o.textOf("command"), o.textOf("url")
	if raw := o.member("args"); raw != nil {
		if err := json.Unmarshal(raw, &m.Args); err != nil {
			return m, fmt.Errorf("args of %q: %w", m.Name, err)
		}
	}
	if m.Env, err = namesIn(o.member("env")); err != nil {
		return m, fmt.Errorf("env of %q: %w", m.Name, err)
	}
	if m.Headers, err = namesIn(o.member("headers")); err != nil {
		return m, fmt.Errorf("headers of %q: %w", m.Name, err)
	}
	if m.Type == "stdio" {
		m.Type = ""
	}
	return m, nil
}

// namesIn returns the names in a list of names with values.
func namesIn(raw json.RawMessage) (names []string, err error) {
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	var list []struct {
		Name string `json:"name"`
	}
	err = json.Unmarshal(raw, &list)
	for _, one := range list {
		names = append(names, one.Name)
	}
	return names, err
}
