package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
)

// listFor returns an access control list that grants rights to the owner and user 1500, and none
// to the group.
func listFor(owner, other uint16) string {
	const (
		userObj, user, groupObj, mask, others = 0x01, 0x02, 0x04, 0x10, 0x20
		nobody                                = 0xffffffff
	)
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{userObj, owner, nobody}, {user, other, 1500}, {groupObj, 0, nobody}, {mask, other, nobody}, {others, 0, nobody}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return string(b)
}

func setList(t *testing.T, path, name, list string) {
	t.Helper()
	err := unix.Setxattr(path, name, []byte(list), 0)
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("no access control lists on this file system")
	}
	must(t, err)
}

// rights returns the lists of a file, and its permissions.
func rights(t *testing.T, path string) string {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	text := fmt.Sprintf("%o", st.Mode)
	for _, name := range []string{accessList, defaultList} {
		v := make([]byte, maxAttrs)
		if n, err := unix.Getxattr(path, name, v); err == nil {
			text += fmt.Sprintf(" %x", v[:n])
		}
	}
	return text
}

// TestAccessLists checks that a restore gives each user the rights of the access control list,
// and no other user any.
func TestAccessLists(t *testing.T) {
	b := newBox(t)
	names := []string{"file", "dir", "dir/heir", "dir/plain", "pipe"}
	b.write("file", "secret")
	must(t, os.Mkdir(b.path("dir"), 0o700))
	must(t, unix.Mkfifo(b.path("pipe"), 0o600))
	setList(t, b.path("file"), accessList, listFor(6, 6))
	setList(t, b.path("pipe"), accessList, listFor(6, 6))
	setList(t, b.path("dir"), accessList, listFor(7, 5))
	setList(t, b.path("dir"), defaultList, listFor(7, 5))
	b.write("dir/heir", "x")
	b.write("dir/plain", "x")
	must(t, unix.Removexattr(b.path("dir/plain"), accessList))
	must(t, os.Chmod(b.path("dir/plain"), 0o640))
	want := map[string]string{}
	for _, name := range names {
		want[name] = rights(t, b.path(name))
	}
	b.settle()
	one := b.keep("one")
	for change, how := range map[string]func(){
		"all is gone": b.empty,
		"no lists": func() {
			for _, name := range names {
				_ = unix.Removexattr(b.path(name), accessList)
				_ = unix.Removexattr(b.path(name), defaultList)
				must(t, os.Chmod(b.path(name), 0o700))
			}
		},
		"lists for all": func() {
			for _, name := range names {
				setList(t, b.path(name), accessList, listFor(7, 7))
			}
		},
	} {
		t.Run(change, func(t *testing.T) {
			how()
			b.back(one)
			for _, name := range names {
				if got := rights(t, b.path(name)); got != want[name] {
					t.Errorf("%s had %s, and has %s", name, want[name], got)
				}
			}
		})
	}
}

// TestAccessListsNotSet checks that a restore reports a file whose access control list it cannot
// set, and that no user gets the rights of the list's mask.
func TestAccessListsNotSet(t *testing.T) {
	b := newBox(t)
	b.write("file", "secret")
	b.write("dir/in", "x")
	must(t, os.Chmod(b.path("file"), 0o660))
	must(t, os.Chmod(b.path("dir"), 0o770))
	b.settle()
	one := b.keep("one")
	trees, err := b.Trees(one)
	must(t, err)
	for i := range trees[0].Entries {
		if e := &trees[0].Entries[i]; e.Path == "file" || e.Path == "dir" {
			e.Attrs = []manifest.Attr{{Name: accessList, Value: "no list"}}
		}
	}
	must(t, os.WriteFile(filepath.Join(b.Path(one.Number), manifestName), manifest.Encode(trees), 0o600))
	b.empty()
	skipped, err := b.Restore(one, b.sources(), func() error { return nil })
	must(t, err)
	slices.Sort(skipped)
	if want := []string{b.path("dir"), b.path("file")}; !slices.Equal(skipped, want) {
		t.Errorf("%q were said, and not %q", skipped, want)
	}
	for name, want := range map[string]string{"file": "100600", "dir": "40700", "dir/in": "100644"} {
		if got := rights(t, b.path(name)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, and not %s", name, got, want)
		}
	}
}
