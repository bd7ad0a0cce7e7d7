package engine

import "github.com/bothy-dev/bothy/spec"

// AsksForDocker tells whether the template of a sandbox asks for a Docker daemon: an image by
// its label, one that was made from a sandbox if that had one.
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
