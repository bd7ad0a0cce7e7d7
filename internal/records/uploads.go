package records

import (
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Uploads returns how much a sandbox has sent in its life under rules that limit it, by the targets
// of the rules. If it is sending just now, the real amount may be a little more.
func Uploads(st *store.Store, sb *spec.Sandbox) ([]spec.Upload, error) {
	list, err := st.Sandbox(sb.ID).ReadUploads()
	if err != nil {
		return nil, &spec.Error{Op: "read what " + sb.Name + " has sent by rules with max_upload", Err: err}
	}
	return list, nil
}
