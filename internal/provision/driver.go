package provision

import (
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/spec"
)

// checkDriver refuses a sandbox that its driver cannot run, before anything is fetched or made for it.
func (p *Provisioner) checkDriver(pl *Plan) error {
	can, err := p.Engine.Drivers.Find(pl.Sandbox.Driver)
	if err != nil {
		return err
	}
	if !can.ImageRoot && p.needsImage(pl.Request.Template) {
		return can.CheckImageRoot(pl.Sandbox.Driver)
	}
	return can.Check(pl.Sandbox)
}

// needsImage reports whether a template's root comes from a container image.
func (p *Provisioner) needsImage(template string) bool {
	if template == "" || template == spec.TemplateHost {
		return false
	}
	saved, err := p.Engine.Templates().Shelf().Find(template)
	return savedtemplate.None(err) || err == nil && saved.Base != spec.TemplateHost
}
