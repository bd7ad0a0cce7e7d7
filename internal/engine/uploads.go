package engine

import "github.com/bothy-dev/bothy/spec"

// Uploads is what a sandbox has sent by rules that bound it, as long as it exists, by the
// targets of the rules. Of one that is sending just now it may be a little more.
func (e *Engine) Uploads(sb *spec.Sandbox) ([]spec.Upload, error) {
	list, err := e.Store.Sandbox(sb.ID).ReadUploads()
	if err != nil {
		return nil, &spec.Error{Op: "read what " + sb.Name + " has sent by rules with max_upload", Err: err}
	}
	return list, nil
}
