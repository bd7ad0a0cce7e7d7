package agent

import (
	"maps"
	"slices"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// Allowed returns the rules for the hosts in an agent's description that are not in presets.
func Allowed(a *spec.Agent) ([]policy.Rule, error) {
	var list []policy.Rule
	for _, target := range a.Allow {
		r, err := policy.ParseRule(policy.Allow, target)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

func checkAllow(a *spec.Agent) error {
	if _, err := Allowed(a); err != nil {
		return &spec.Error{Class: spec.ErrUsage, Op: "allow", Err: err}
	}
	return nil
}

// Variables returns the variables that may hold one of an agent's credentials.
func Variables(a *spec.Agent, service string) []string {
	if own, ok := a.Services[service]; ok {
		return own.Env
	}
	if s := vault.FindService(service); s != nil {
		return s.Env
	}
	return nil
}

// Terms returns the lease terms of a service that an agent's description defines. ok is false for a
// service that the vault knows.
func Terms(a *spec.Agent, service string) (t vault.Terms, ok bool) {
	own, ok := a.Services[service]
	if ok {
		t = vault.Terms{Hosts: slices.Clone(own.Hosts), Place: &own.Place, Env: slices.Clone(own.Env)}
	}
	return t, ok
}

func checkServices(a *spec.Agent) error {
	fail := usageIn("services")
	for _, name := range a.Credentials {
		_, own := a.Services[name]
		if s := vault.FindService(name); !own && (s == nil || s.Name != name) {
			return usageIn("credentials")("no service named %q", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Services)) {
		switch {
		case vault.CheckName(name) != nil:
			return fail("%q is not a name for a secret", name)
		case vault.GuessService(name, vault.Source{}) != "":
			return fail("Bothy already knows %s; give yours another name", name)
		case !slices.Contains(a.Credentials, name):
			return fail("%q is not one of the credentials", name)
		}
		if err := checkService(a, name); err != nil {
			return &spec.Error{Class: spec.ErrUsage, Op: "services: " + name, Err: err}
		}
	}
	return nil
}

// checkService checks a service that Bothy does not know. It may not use the variable of a
// known service, whose value is for other hosts.
func checkService(a *spec.Agent, name string) error {
	t, _ := Terms(a, name)
	if len(t.Hosts) == 0 || len(t.Env) == 0 {
		return spec.Errorf(spec.ErrUsage, "hosts, place and env are needed")
	}
	if t.Place.IsAgent() {
		return spec.Errorf(spec.ErrUsage, "%q is not a place in a request", t.Place.Kind)
	}
	if err := t.Check(); err != nil {
		return err
	}
	for _, variable := range t.Env {
		known := vault.GuessService("", vault.Source{Variable: variable})
		if known != "" {
			return spec.Errorf(spec.ErrUsage, "the value of %s is for the hosts of %s", variable, known)
		}
	}
	return nil
}
