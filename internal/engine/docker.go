package engine

import "github.com/bothy-dev/bothy/spec"

// AsksForDocker reports whether a sandbox's template asks for a Docker daemon. An image asks by its
// label. A template that was made from a sandbox asks if that sandbox had a daemon.
func (e *Engine) AsksForDocker(sb *spec.Sandbox) bool {
	if sb.Template == spec.TemplateHost {
		return false
	}
	if t, err := e.Templates().Find(sb.Template); err == nil {
		return t.Docker
	}
	if sb.Image == nil {
		return false
	}
	r, err := e.Images().Root(sb.Image.Digest)
	return err == nil && r.Docker
}
