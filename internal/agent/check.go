package agent

import (
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// checkAgent checks a description.
func checkAgent(a *spec.Agent) error {
	fail := func(format string, args ...any) error { return spec.Errorf(spec.ErrUsage, format, args...) }
	if a.Version != spec.Version {
		return fail("version is %d, not %d", a.Version, spec.Version)
	}
	if err := CheckName(a.Name); err != nil {
		return err
	}
	if a.Title == "" {
		return fail("title is missing")
	}
	for _, command := range a.Default {
		if command != Ralph {
			return fail("default: %q is no command that takes an agent unasked; there is %s", command, Ralph)
		}
	}
	if a.Program == "" || strings.Contains(a.Program, "/") && !path.IsAbs(a.Program) {
		return fail("program must be a name, or an absolute path inside")
	}
	if err := checkSubcommands(a); err != nil {
		return err
	}
	if err := checkPresets("presets", a.Presets); err != nil {
		return err
	}
	if err := checkReach(a); err != nil {
		return err
	}
	if err := checkAllow(a); err != nil {
		return err
	}
	if err := checkServices(a); err != nil {
		return err
	}
	for _, p := range a.Config {
		if !localFile(p) {
			return fail("config: %q is no path below the home directory", p)
		}
	}
	for _, p := range a.Logins {
		if _, err := path.Match(p, ""); err != nil || !localFile(p) || strings.HasPrefix(p, "*") {
			return fail("logins: %q is no path below the home directory, in whose names * may stand for some characters", p)
		}
	}
	if s := a.Servers; s != nil && (!localFile(s.File) || !strings.HasSuffix(s.File, ".json") && !isTOML(s.File) || s.Key == "") {
		return fail("servers: file must be a path below the home directory that ends with .json or .toml, and key is needed")
	}
	if s := a.Servers; s != nil {
		if err := checkDirectory(s.Directory); err != nil {
			return fail("servers: directory: %w", err)
		}
	}
	if err := checkTold(a); err != nil {
		return err
	}
	if err := checkLogin(a.Login); err != nil {
		return err
	}
	if err := checkKeys(a); err != nil {
		return err
	}
	if err := checkRefused(a); err != nil {
		return err
	}
	if err := checkTokens(a); err != nil {
		return err
	}
	if err := checkElsewhere(a); err != nil {
		return err
	}
	if err := checkEnv("env", a.Env); err != nil {
		return err
	}
	if err := checkMock(a.Mock); err != nil {
		return err
	}
	if err := checkServer(a.Server); err != nil {
		return err
	}
	for _, f := range a.Home {
		if !localFile(f.Path) {
			return fail("home: %q is no path below the home directory", f.Path)
		}
		if f.Barred != "" {
			if _, err := policy.ParseRule(policy.Allow, f.Barred); err != nil {
				return fail("home: %s: barred: %w", f.Path, err)
			}
		}
		if _, err := Expand(f.Text, func(string) (string, bool) { return "", true }); err != nil {
			return fail("home: %s: %w", f.Path, err)
		}
		for _, service := range f.Lent {
			if !mayBeLent(a, service) {
				return fail("home: %s: lent: %q is neither one of the credentials nor the login's service", f.Path, service)
			}
		}
	}
	if err := checkHeadless(a.Headless); err != nil {
		return err
	}
	if err := checkTranscript(a.Transcript); err != nil {
		return err
	}
	if err := checkRuntime(a); err != nil {
		return err
	}
	return checkInstall(a)
}

// checkRuntime rejects keys in a runtime's description that only an agent may have.
func checkRuntime(a *spec.Agent) error {
	bare := spec.Agent{
		Version: a.Version, Name: a.Name, Aliases: a.Aliases, Title: a.Title, Runtime: a.Runtime,
		Told: a.Told, Install: a.Install, Get: a.Get, Program: a.Program,
	}
	if a.Runtime && !reflect.DeepEqual(*a, bare) {
		return spec.Errorf(spec.ErrUsage, "runtime: what agents run on has a program and an installation, and nothing else of agents")
	}
	return nil
}

// mayBeLent reports whether something of a service can be lent to an agent by itself.
func mayBeLent(a *spec.Agent, service string) bool {
	if service == LentServer || service == LentModel {
		return a.Server != nil
	}
	return slices.Contains(a.Credentials, service) || a.Login != nil && a.Login.Service == service
}

func checkReach(a *spec.Agent) error {
	for _, service := range slices.Sorted(maps.Keys(a.Reach)) {
		if !slices.Contains(a.Credentials, service) {
			return spec.Errorf(spec.ErrUsage, "reach: %q is none of the credentials", service)
		}
		if err := checkPresets("reach: "+service, a.Reach[service]); err != nil {
			return err
		}
	}
	return nil
}

func checkPresets(where string, names []string) error {
	for _, name := range names {
		if _, err := policy.FindPreset(name); err != nil {
			return spec.Errorf(spec.ErrUsage, "%s: %v", where, err).WithHint("%s", spec.Hint(err))
		}
	}
	return nil
}

func checkEnv(where string, env map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if err := vault.CheckVariable(name); err != nil {
			return err
		}
		if strings.ContainsRune(env[name], 0) {
			return spec.Errorf(spec.ErrUsage, "%s: %s has a NUL in it", where, name)
		}
	}
	return nil
}

// wordKey is the placeholder of the made-up key in a mock's settings for an agent.
const wordKey = "{key}"

func checkMock(m *spec.AgentMock) error {
	if m == nil {
		return nil
	}
	if s := vault.FindService(m.Service); m.Service != "" && (s == nil || s.Name != m.Service || !s.Model) {
		return spec.Errorf(spec.ErrUsage, "mock: no service of models named %q", m.Service)
	}
	return checkEnv("mock", m.Env)
}

// Env returns the variables of an agent, as NAME=VALUE.
func Env(a *spec.Agent) (env []string) {
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		env = append(env, name+"="+a.Env[name])
	}
	return env
}

// MockEnv returns the variables that point an agent to a mock model, with a made-up key.
func MockEnv(m *spec.AgentMock, key string) []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(m.Env)) {
		env = append(env, name+"="+strings.ReplaceAll(m.Env[name], wordKey, key))
	}
	return env
}

func checkInstall(a *spec.Agent) error {
	if a.Install == nil {
		return nil
	}
	if a.Get != "" {
		return spec.Errorf(spec.ErrUsage, "get is for what Bothy does not install")
	}
	fail := func(format string, args ...any) error {
		return spec.Errorf(spec.ErrUsage, "install: "+format, args...)
	}
	if strings.Contains(a.Program, "/") {
		return fail("what is installed is started by its name, not as %s", a.Program)
	}
	if a.Install.Package == "" {
		return fail("package is missing")
	}
	if v := a.Install.Version; v != "" {
		if err := checkVersion(v); err != nil {
			return fail("version: %w", err)
		}
	}
	if n := a.Install.Needs; n != nil {
		if CheckName(n.Name) != nil || n.Name == a.Name || a.Runtime {
			return fail("needs: %q cannot be the name of what it runs on", n.Name)
		}
		if !Exact(n.Version) {
			return fail("needs: %q is no version; write a whole one, like 20.0.0", n.Version)
		}
	}
	return checkSource(*a.Install)
}
