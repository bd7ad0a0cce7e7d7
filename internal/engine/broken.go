package engine

import "github.com/bothy-dev/bothy/spec"

// BrokenError is the error of a command for a sandbox whose spec cannot be read.
func BrokenError(sb *spec.Sandbox) error {
	return spec.Errorf(spec.ErrConflict, "sandbox %s is broken: %s", sb.Name, sb.Broken).WithHint("%s", sb.Mend)
}
