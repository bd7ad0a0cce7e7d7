package agentprogram

import (
	"context"
	"errors"
	"fmt"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/spec"
)

// Runtime returns the installation of the runtime that an agent needs. It installs one if no
// installed version is new enough. It returns nil if the agent needs none, or if the host or the
// image has one. The notices say why the image's own runtime is not used.
func (s *Programs) Runtime(ctx context.Context, a *spec.Agent, g Ground, progress Progress) (*spec.Program, []string, error) {
	if a.Install == nil || a.Install.Needs == nil {
		return nil, nil, nil
	}
	need := a.Install.Needs
	r, err := s.Agents.Find(need.Name)
	if err == nil && !r.Runtime {
		err = spec.Errorf(spec.ErrUsage, "%s is an agent, and nothing that others run on", need.Name)
	}
	if err != nil {
		return nil, nil, &spec.Error{Op: "find what " + a.Title + " runs on", Err: err}
	}
	if g.Host && agent.AtLeast(s.hostVersion(ctx, r.Program), need.Version) {
		return nil, nil, nil
	}
	why := ""
	if g.image != nil {
		if why = g.image.Lacks(r, need.Version); why == "" {
			return nil, nil, nil
		}
	}
	p, notices, err := s.newEnough(ctx, r, g, need.Version, progress)
	if err != nil {
		lacks := "the host"
		if !g.Host {
			lacks = "the image"
			err = fmt.Errorf("%s; %w", why, err)
		}
		op := fmt.Sprintf("install %s %s or newer, which %s needs and %s has not", r.Title, need.Version, a.Title, lacks)
		return nil, nil, &spec.Error{Op: op, Err: err}
	}
	p.From = r.Name
	if why != "" {
		notices = append(notices, fmt.Sprintf("%s runs on %s %s of Bothy: %s", a.Title, r.Title, p.Installation, why))
	}
	return p, notices, nil
}

// newEnough returns the newest installation of a runtime, or else installs the version that its
// description means.
func (s *Programs) newEnough(ctx context.Context, r *spec.Agent, g Ground, least string, progress Progress) (*spec.Program, []string, error) {
	if r.Install == nil {
		return nil, nil, errors.New("its description does not say where it is to be had")
	}
	there, ok, err := s.newest(r, g.Target)
	if err != nil {
		return nil, nil, err
	}
	if ok && agent.AtLeast(there.Release, least) {
		return programOf(r, there), nil, nil
	}
	got, err := s.InstallVersion(ctx, r, g, "", progress)
	if err == nil && !agent.AtLeast(got.Release, least) {
		err = spec.Errorf(nil, "%s %s is too old", r.Title, got.Release)
	}
	return programOf(r, got.Installation), got.Notices, err
}
