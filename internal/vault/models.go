package vault

import (
	"slices"
	"strings"
)

// ModelHosts returns the names of all providers of models that a script can play.
func ModelHosts() []string {
	return hostNames(func(s Service) []string {
		if s.Model {
			return s.Hosts
		}
		return nil
	})
}

// CountedHosts returns the names at which models answer in a way that a gateway can read, besides
// [ModelHosts].
func CountedHosts() []string {
	return hostNames(func(s Service) []string { return s.Counted })
}

// hostNames returns the names of some hosts of all services.
func hostNames(hosts func(Service) []string) (names []string) {
	for _, s := range Services {
		for _, host := range hosts(s) {
			name, _, _ := strings.Cut(host, ":")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// IsModelHost reports whether models answer at a host in a way that a gateway can read, or at one of
// the hosts of a pattern.
func IsModelHost(target string) bool {
	name, _, _ := strings.Cut(strings.ToLower(target), ":")
	known := append(ModelHosts(), CountedHosts()...)
	if below := strings.TrimLeft(name, "*"); below != name {
		return slices.ContainsFunc(known, func(host string) bool { return strings.HasSuffix(host, below) })
	}
	return slices.Contains(known, name)
}
