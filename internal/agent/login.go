package agent

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

func checkLogin(l *spec.AgentLogin) error {
	if l == nil {
		return nil
	}
	fail := usageIn("login")
	if !localFile(l.File) || path.Dir(l.File) == "." {
		return fail("%q is not a file in a directory below the home directory", l.File)
	}
	if err := checkDirectory(l.Directory); err != nil {
		return fail("directory: %w", err)
	}
	if s := vault.FindService(l.Service); s == nil || s.Name != l.Service {
		return fail("no service named %q", l.Service)
	}
	pointers := slices.Concat([]string{l.Access, l.Refresh}, l.Keep, l.Claims)
	for _, p := range []string{l.Expires, l.Identity, l.Renewed} {
		if p != "" {
			pointers = append(pointers, p)
		}
	}
	for _, p := range pointers {
		if err := oauthfile.CheckPointer(p); err != nil {
			return fail("%w", err)
		}
	}
	if err := checkEndpoint(l.Endpoint); err != nil {
		return fail("endpoint: %w", err)
	}
	if l.Form != "" && l.Form != spec.FormJSON {
		return fail("form is %q, not %s", l.Form, spec.FormJSON)
	}
	if l.Capture != nil && slices.ContainsFunc(l.Capture.Pass, func(name string) bool { return strings.HasSuffix(strings.ToLower(name), "_token") }) {
		return fail("capture: placeholders of tokens are passed by themselves, and other tokens never")
	}
	if l.Client == "" || l.Again == "" {
		return fail("client and again are needed")
	}
	return nil
}

func checkKeys(a *spec.Agent) error {
	fail := usageIn("keys")
	for _, k := range a.Keys {
		if err := checkKeyPlace(k.File, k.Directory, k.Key); err != nil {
			return fail("%w", err)
		}
		if _, own := a.Services[k.Service]; own || !slices.Contains(a.Credentials, k.Service) {
			return fail("%q is not one of the credentials that Bothy knows", k.Service)
		}
		if err := checkPaths(vault.FindService(k.Service), k.Paths); err != nil {
			return fail("%w", err)
		}
	}
	return nil
}

// checkRefused checks the description of the keys that the agent's user has refused.
func checkRefused(a *spec.Agent) error {
	fail := usageIn("refused")
	for _, r := range a.Refused {
		if err := checkKeyPlace(r.File, r.Directory, r.Key); err != nil {
			return fail("%w", err)
		}
		if oauthfile.IsVariables(r.File) {
			return fail("%q has no lists in it", r.File)
		}
		if !slices.Contains(a.Credentials, r.Service) {
			return fail("%q is not one of the credentials", r.Service)
		}
		if r.Last < 0 {
			return fail("last: %d is negative", r.Last)
		}
	}
	return nil
}

func checkPaths(s *vault.Service, paths []string) error {
	if s == nil || len(paths) == 0 {
		return nil
	}
	terms := vault.Terms{Hosts: s.Hosts, Paths: paths, Place: &s.Place}
	return terms.Check()
}

// checkTokens checks which tokens of other programs an agent takes. It does not check the names of the
// tools: the package that looks for the tokens knows them.
func checkTokens(a *spec.Agent) error {
	fail := usageIn("tokens")
	for i, t := range a.Tokens {
		if t.Tool == "" || t.Server == "" || len(t.Paths) == 0 {
			return fail("tool, server and paths are needed")
		}
		if slices.ContainsFunc(a.Tokens[:i], func(o spec.AgentToken) bool { return o.Tool == t.Tool }) {
			return fail("%s is listed twice", t.Tool)
		}
		s := vault.FindService(t.Service)
		if s == nil || !slices.Contains(a.Credentials, t.Service) {
			return fail("%q is not one of the credentials that Bothy knows", t.Service)
		}
		if err := checkPaths(s, t.Paths); err != nil {
			return fail("%w", err)
		}
	}
	return nil
}

func checkElsewhere(a *spec.Agent) error {
	fail := usageIn("elsewhere")
	for _, o := range a.Elsewhere {
		file := o.File != "" || o.Directory != "" || o.Key != "" || len(o.Also) > 0
		if o.Variable != "" || !file {
			if err := vault.CheckVariable(o.Variable); err != nil {
				return fail("%w", err)
			}
		}
		if len(o.Own) == 0 || slices.Contains(o.Own, "") {
			return fail("own must name servers")
		}
		for _, service := range o.Services {
			if !slices.Contains(a.Credentials, service) {
				return fail("services: %q is not one of the credentials", service)
			}
		}
		if !file {
			continue
		}
		if err := checkKeyPlace(o.File, o.Directory, o.Key); err != nil {
			return fail("%w", err)
		}
		for _, other := range o.Also {
			if err := checkAlso(&o, other); err != nil {
				return fail("also: %w", err)
			}
		}
	}
	return nil
}

// checkAlso checks another file with the same setting.
func checkAlso(o *spec.AgentElsewhere, other string) error {
	if oauthfile.IsVariables(other) != oauthfile.IsVariables(o.File) {
		return spec.Errorf(spec.ErrUsage, "%q is not of the same kind as %s", other, o.File)
	}
	if !path.IsAbs(other) {
		return checkKeyPlace(other, "", o.Key)
	}
	if _, err := path.Match(other, ""); err != nil || path.Clean(other) != other || strings.ContainsAny(path.Dir(other), `*?[\`) {
		return spec.Errorf(spec.ErrUsage, "%q is not a path, or has a * before its last name", other)
	}
	return nil
}

// checkKeyPlace checks the file of the host, and the key in it, of a value.
func checkKeyPlace(file, directory, key string) error {
	if !localFile(file) {
		return fmt.Errorf(notLocal, file)
	}
	if err := checkDirectory(directory); err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	if oauthfile.IsVariables(file) {
		return vault.CheckVariable(key)
	}
	return oauthfile.CheckPointer(key)
}

// checkDirectory checks the alternative directory of a file: empty, VARIABLE, or VARIABLE/PATH.
func checkDirectory(directory string) error {
	if directory == "" {
		return nil
	}
	variable, below, has := strings.Cut(directory, "/")
	if has && !localFile(below) {
		return spec.Errorf(spec.ErrUsage, "%q is not a path below the directory of the variable", below)
	}
	return vault.CheckVariable(variable)
}

// checkEndpoint requires https://NAME[:PORT]/PATH.
func checkEndpoint(endpoint string) error {
	rest, secure := strings.CutPrefix(endpoint, "https://")
	host, _, ok := strings.Cut(rest, "/")
	if !secure || !ok || strings.ContainsAny(endpoint, "?#@ ") {
		return spec.Errorf(spec.ErrUsage, "%q is not https://NAME/PATH", endpoint)
	}
	r, err := policy.ParseRule(policy.Allow, host)
	if err != nil {
		return err
	}
	if r.Target.Kind == target.Range || strings.ContainsRune(host, '*') {
		return spec.Errorf(spec.ErrUsage, "%q is not the name of one server", host)
	}
	return nil
}
