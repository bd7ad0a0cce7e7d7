package agent

import (
	"cmp"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// checkAgent checks a description, and returns the first error.
func checkAgent(a *spec.Agent) error {
	return cmp.Or(
		checkIdentity(a), checkSubcommands(a), checkPresets("presets", a.Presets), checkReach(a), checkAllow(a),
		checkServices(a), checkFiles(a), checkTold(a), checkLogin(a.Login), checkKeys(a), checkRefused(a),
		checkTokens(a), checkElsewhere(a), checkEnv("env", a.Env), checkMock(a.Mock), checkServer(a.Server), checkHome(a),
		checkHeadless(a.Headless), checkTranscript(a.Transcript), checkRuntime(a), checkInstall(a), checkACP(a.ACP),
	)
}

// usageIn returns a function that makes errors about a key of a description.
func usageIn(key string) func(format string, args ...any) error {
	return func(format string, args ...any) error { return spec.Errorf(spec.ErrUsage, key+": "+format, args...) }
}

func checkIdentity(a *spec.Agent) error {
	if a.Version != spec.Version {
		return spec.Errorf(spec.ErrUsage, "version is %d, not %d", a.Version, spec.Version)
	}
	if err := CheckName(a.Name); err != nil {
		return err
	}
	if a.Title == "" {
		return spec.Errorf(spec.ErrUsage, "title is missing")
	}
	for _, command := range a.Default {
		if command != Ralph {
			return spec.Errorf(spec.ErrUsage, "default: %q does not choose an agent by itself; only %s does", command, Ralph)
		}
	}
	if a.Program == "" || strings.Contains(a.Program, "/") && !path.IsAbs(a.Program) {
		return spec.Errorf(spec.ErrUsage, "program must be a name, or an absolute path inside")
	}
	return nil
}

func checkFiles(a *spec.Agent) error {
	for _, p := range a.Config {
		if !localFile(p) {
			return usageIn("config")(notLocal, p)
		}
	}
	for _, p := range a.Logins {
		if _, err := path.Match(p, ""); err != nil || !localFile(p) || strings.HasPrefix(p, "*") {
			return usageIn("logins")(notLocal+"; its names may contain *", p)
		}
	}
	s, fail := a.Servers, usageIn("servers")
	if s == nil {
		return nil
	}
	if !localFile(s.File) || !strings.HasSuffix(s.File, ".json") && !isTOML(s.File) || s.Key == "" {
		return fail("file must be a path below the home directory that ends with .json or .toml, and key is needed")
	}
	if err := checkDirectory(s.Directory); err != nil {
		return fail("directory: %w", err)
	}
	return nil
}

// notLocal is the format of the error about a path that [localFile] does not accept.
const notLocal = "%q is not a path below the home directory"

// localFile accepts a clean path below a directory.
func localFile(p string) bool {
	return filepath.IsLocal(p) && path.Clean(p) == p && p != "."
}

func checkHome(a *spec.Agent) error {
	fail := usageIn("home")
	for _, f := range a.Home {
		if !localFile(f.Path) {
			return fail(notLocal, f.Path)
		}
		if f.Barred != "" {
			if _, err := policy.ParseRule(policy.Allow, f.Barred); err != nil {
				return fail("%s: barred: %w", f.Path, err)
			}
		}
		if _, err := Expand(f.Text, func(string) (string, bool) { return "", true }); err != nil {
			return fail("%s: %w", f.Path, err)
		}
		for _, service := range f.Lent {
			if !mayBeLent(a, service) {
				return fail("%s: lent: %q is neither one of the credentials nor the login's service", f.Path, service)
			}
		}
	}
	return nil
}

// checkRuntime rejects keys in a runtime's description that only an agent may have.
func checkRuntime(a *spec.Agent) error {
	bare := spec.Agent{
		Version: a.Version, Name: a.Name, Aliases: a.Aliases, Title: a.Title, Runtime: a.Runtime,
		Told: a.Told, Install: a.Install, Get: a.Get, Program: a.Program,
	}
	if a.Runtime && !reflect.DeepEqual(*a, bare) {
		return spec.Errorf(spec.ErrUsage, "runtime: a runtime has a program and an installation, and no other keys of agents")
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
			return spec.Errorf(spec.ErrUsage, "reach: %q is not one of the credentials", service)
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
func Env(a *spec.Agent) []string { return environ(a.Env, func(value string) string { return value }) }

// environ returns variables as NAME=VALUE, with each value expanded.
func environ(of map[string]string, expand func(value string) string) (env []string) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		env = append(env, name+"="+expand(of[name]))
	}
	return env
}

// MockEnv returns the variables that point an agent to a mock model, with a made-up key.
func MockEnv(m *spec.AgentMock, key string) []string {
	return environ(m.Env, func(value string) string { return strings.ReplaceAll(value, wordKey, key) })
}

func checkInstall(a *spec.Agent) error {
	if a.Install == nil {
		return nil
	}
	if a.Get != "" {
		return spec.Errorf(spec.ErrUsage, "get is for programs that Bothy does not install")
	}
	fail := usageIn("install")
	if strings.Contains(a.Program, "/") {
		return fail("an installed program is started by its name, not as %s", a.Program)
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
			return fail("needs: %q cannot be the name of a runtime", n.Name)
		}
		if !Exact(n.Version) {
			return fail("needs: %q is not a version; write a whole one, like 20.0.0", n.Version)
		}
	}
	return checkSource(*a.Install)
}
