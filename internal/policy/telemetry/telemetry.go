// Package telemetry knows the hosts that programs contact only in the interest of their makers.
package telemetry

import (
	"strings"
	"sync"

	"github.com/bothy-dev/bothy/internal/policy"
)

// Is reports whether a refused request is known to serve the maker of a program, such as its
// reports and feature switches, and not the program's own work. It decides nothing: rules let the
// request through or not. The CLI sorts refusals by it.
func Is(host, path string) bool {
	for _, p := range telemetry() {
		if p.matches(host, path) {
			return true
		}
	}
	return false
}

// spot is a host, whose labels may be any (*), and a path in it, unless all are meant.
type spot struct {
	labels []string
	path   string
}

func (p spot) matches(host, path string) bool {
	labels := strings.Split(strings.ToLower(strings.TrimSuffix(host, ".")), ".")
	if len(labels) != len(p.labels) {
		return false
	}
	for i, want := range p.labels {
		if want != "*" && want != labels[i] {
			return false
		}
	}
	return p.path == "" || path == p.path || strings.HasPrefix(path, p.path+"/")
}

// telemetry returns the places that presets leave out for that reason.
func telemetry() []spot {
	theirs.read.Do(func() { theirs.spots = readTelemetry() })
	return theirs.spots
}

// theirs is read once. It is not a sync.OnceValue, because every process would create that
// at its start.
var theirs struct {
	read  sync.Once
	spots []spot
}

func readTelemetry() (list []spot) {
	for _, name := range policy.PresetNames() {
		p, err := policy.FindPreset(name)
		if err != nil { // the files are in the binary, and tested
			continue
		}
		for _, l := range p.LeftOut {
			if !l.Telemetry {
				continue
			}
			for one := range strings.SplitSeq(l.Host, ", ") {
				host, path, found := strings.Cut(one, "/")
				if found {
					path = "/" + path
				}
				list = append(list, spot{strings.Split(host, "."), path})
			}
		}
	}
	return list
}
