package gvisor

import (
	"reflect"

	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

// hasOtherNames reports whether gVisor has cached the file of a dentry under another name as well. Such
// dentries share an inode, and the inode keeps the host's descriptor: evicting one of them closes
// nothing. It would do harm: the next dentry takes the inode's size and times as they are, from the last
// look at the file under the other name. gVisor does not export this. hasOtherNames reads the count by
// the names of its fields.
func hasOtherNames(d *vfs.Dentry) bool {
	refs, ok := inodeRefs(reflect.ValueOf(d.Impl()))
	return ok && refs > 1
}

// inodeFields returns the fields that lead from a dentry of the gofer to the reference count of its
// inode.
func inodeFields() []string { return []string{"inode", "refs", "refCount", "value"} }

// inodeRefs returns that count. It is false if gVisor has renamed the fields; the script files-links
// then fails.
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
	return v.Int() & (1<<32 - 1), true // the higher bits are references that are being taken
}
