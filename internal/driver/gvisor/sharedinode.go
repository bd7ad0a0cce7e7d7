package gvisor

import (
	"reflect"

	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

// hasOtherNames tells whether gVisor has the file of a dentry cached under another name as
// well. Such dentries share an inode, and it is the inode that keeps the host's descriptor: to
// evict one of them closes nothing. It would do harm: the next dentry takes the inode's size and
// times as they are, from when the file was last looked at under the other name.
//
// gVisor does not tell this. The count is read by the names of its fields.
func hasOtherNames(d *vfs.Dentry) bool {
	refs, ok := inodeRefs(reflect.ValueOf(d.Impl()))
	return ok && refs > 1
}

// inodeFields lead from a dentry of the gofer to the count of the dentries that share its inode.
func inodeFields() []string { return []string{"inode", "refs", "refCount", "value"} }

// inodeRefs returns that count, and false if gVisor names the fields otherwise: the script files-links fails then.
func inodeRefs(v reflect.Value) (int64, bool) {
	for _, name := range inodeFields() {
		for v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return 0, false
		}
		v = v.FieldByName(name)
	}
	if v.Kind() != reflect.Int64 {
		return 0, false
	}
	return v.Int() & (1<<32 - 1), true // above it are references that are being taken
}
