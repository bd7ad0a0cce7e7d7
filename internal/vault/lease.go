package vault

import (
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// leases is the document in a sandbox's directory. It has no values.
type leases struct {
	Version int          `json:"version"`
	Leases  []spec.Lease `json:"leases"`
}

// ReadLeases returns the leases of a sandbox, including those that ran out.
func ReadLeases(path string) ([]spec.Lease, error) {
	var d leases
	err := readDocument(path, &d)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, spec.ErrNewer) {
		return nil, err
	}
	if err == nil && d.Version < 1 {
		err = spec.Errorf(spec.ErrConflict, "%s has no version", path)
	}
	if err != nil {
		return nil, (&spec.Error{Op: "read the leases", Err: err}).
			WithHint("remove the file and lend the secrets again")
	}
	return d.Leases, nil
}

// WriteLeases replaces the leases of a sandbox. The caller holds the lock.
func WriteLeases(path string, list []spec.Lease) error {
	if list == nil {
		list = []spec.Lease{}
	}
	return store.WriteJSON(path, leases{Version: spec.Version, Leases: list})
}

// Live returns the leases that have not run out.
func Live(list []spec.Lease, now time.Time) []spec.Lease {
	return slices.DeleteFunc(slices.Clone(list), func(l spec.Lease) bool { return !l.Live(now) })
}

// Part splits leases into the chosen ones and the others.
func Part(list []spec.Lease, which func(*spec.Lease) bool) (chosen, others []spec.Lease) {
	for i, l := range list {
		if which(&list[i]) {
			chosen = append(chosen, l)
		} else {
			others = append(others, l)
		}
	}
	return chosen, others
}

// IsLive reports whether a list has a lease with an ID that has not run out.
func IsLive(list []spec.Lease, id string, now time.Time) bool {
	return slices.ContainsFunc(list, func(l spec.Lease) bool { return l.ID == id && l.Live(now) })
}

// HostsOf returns the hosts that a lease of a secret would be for.
func HostsOf(s *Secret, t Terms) []string {
	if service := FindService(s.Service); len(t.Hosts) == 0 && service != nil {
		return service.Hosts
	}
	return t.Hosts
}

// Terms are the terms of a lease. Empty fields have the usual values of the secret's service.
type Terms struct {
	Hosts, Methods, Paths []string
	Place                 *spec.Place
	Env                   []string
	For                   time.Duration // 0 means until it is revoked
	Tool                  string        // owner of the token
	Settings              []spec.Setting
	// Placeholder and Renewal are existing placeholders inside; empty means new ones.
	Placeholder, Renewal string
}

// Check checks complete terms, which leave nothing to a service.
func (t *Terms) Check() error {
	l := spec.Lease{Hosts: t.Hosts, Methods: t.Methods, Paths: t.Paths, Env: t.Env, Settings: t.Settings}
	if t.Place != nil {
		l.Place = *t.Place
	}
	return checkLease(&l)
}

// leasePrefix distinguishes the ID of a lease from the name of a secret.
const leasePrefix = "lease-"

// NewLease makes a lease of a secret. It uses the value only for the shape of its placeholder.
func NewLease(s *Secret, sandbox string, t Terms, value []byte, now time.Time) (spec.Lease, error) {
	service := FindService(s.Service)
	if service == nil {
		service = &Service{Place: bearer, Env: defaultVariable(s)}
	}
	l := spec.Lease{
		ID: leasePrefix + store.NewID(), Secret: s.Name, Sandbox: sandbox,
		Hosts: t.Hosts, Methods: t.Methods, Paths: t.Paths, Place: service.Place, Env: t.Env,
		Tool: t.Tool, Settings: t.Settings,
	}
	if len(l.Hosts) == 0 {
		l.Hosts = service.Hosts
	}
	if t.Place != nil {
		l.Place = *t.Place
	}
	if l.Hosts == nil {
		l.Hosts = []string{}
	}
	if l.Env == nil {
		l.Env = service.Env
	}
	if t.For < 0 {
		return l, spec.Errorf(spec.ErrUsage, "a lease cannot end before it begins")
	}
	if t.For > 0 {
		l.Until = now.Add(t.For).UTC().Truncate(time.Second)
	}
	if err := checkLease(&l); err != nil {
		return l, err
	}
	l.Placeholder = Placeholder(FindService(s.Service), value)
	return l, nil
}

// StandIn sets the placeholders for the tokens of a login. access may be empty, which means the usual
// placeholder.
func StandIn(l *spec.Lease, service, access, refresh string) {
	if access != "" {
		l.Placeholder = access
	}
	l.Renewal = Placeholder(FindService(service), []byte(refresh))
}

// defaultVariable returns the variable for a secret without a known service: its source variable, or its
// name in capitals.
func defaultVariable(s *Secret) []string {
	if s.Source.Kind == SourceEnvironment {
		return []string{s.Source.Variable}
	}
	name := strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(s.Name))
	if CheckVariable(name) != nil {
		name = "_" + name
	}
	return []string{name}
}

func checkLease(l *spec.Lease) error {
	if len(l.Hosts) == 0 && !l.Place.IsAgent() {
		return spec.Errorf(spec.ErrUsage, "it is not known where secret %s belongs", l.Secret).
			WithHint("name the host that may get it: --host api.example.com")
	}
	for _, h := range l.Hosts {
		if err := checkHost(h, l.Methods, l.Paths); err != nil {
			return err
		}
	}
	for _, name := range l.Env {
		if err := CheckVariable(name); err != nil {
			return err
		}
	}
	for _, s := range l.Settings {
		if err := checkSetting(s); err != nil {
			return err
		}
	}
	return l.Place.Check()
}

// checkSetting refuses text that a reader would take for more than one line.
func checkSetting(s spec.Setting) error {
	if strings.ContainsFunc(s.Name+s.Text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return spec.Errorf(spec.ErrUsage, "a setting inside has a character that is not printable ASCII")
	}
	if s.Kind == spec.SettingVariable {
		return CheckVariable(s.Name)
	}
	return nil
}

// checkHost requires a target with a known owner.
func checkHost(host string, methods, paths []string) error {
	r, err := policy.ParseRule(policy.Allow, host)
	if err != nil {
		return err
	}
	r.HTTP.Methods, r.HTTP.Paths = methods, paths
	if err := r.Check(); err != nil {
		return err
	}
	name, _, _ := strings.Cut(strings.ToLower(host), ":")
	base := strings.TrimSuffix(strings.TrimLeft(name, "*."), ".")
	if strings.HasPrefix(name, "*") && anybodys(base) || strings.Contains(host, "/") {
		return spec.Errorf(spec.ErrUsage, "%q is too much to lend a secret to", host).
			WithHint("name the host that needs it")
	}
	if _, err := netip.ParseAddr(base); err != nil && !strings.Contains(base, ".") && !strings.HasPrefix(host, "[") {
		return spec.Errorf(spec.ErrUsage, "%q is not the full name of a host", host)
	}
	return nil
}
