package engine

import (
	"slices"

	"github.com/bothy-dev/bothy/internal/apiport"
	"github.com/bothy-dev/bothy/spec"
)

// HoldAPIPorts records the ports at which this process answers the API, until release is called. It refuses a
// port that a sandbox can reach.
func (e *Engine) HoldAPIPorts(ports []uint16) (release func(), err error) {
	if release, err = apiport.Hold(apiport.Dir(e.Store), ports); err != nil {
		return nil, err
	}
	list, err := e.Store.List() // after the record: a sandbox that gets the port now is refused
	if err != nil {
		release()
		return nil, err
	}
	for _, sb := range list {
		for _, port := range ports {
			if slices.Contains(sb.HostPorts, port) {
				release()
				return nil, spec.Errorf(spec.ErrConflict, "sandbox %s can reach port %d of this machine, and must not reach the API", sb.Name, port).
					WithHint("choose another port, or close it: bothy ports %s --deny-host-port %d", sb.Name, port)
			}
		}
	}
	return release, nil
}

// checkAPIPorts refuses a sandbox that could reach the API.
func (e *Engine) checkAPIPorts(sb *spec.Sandbox) error {
	return apiport.Check(apiport.Dir(e.Store), sb.HostPorts)
}
