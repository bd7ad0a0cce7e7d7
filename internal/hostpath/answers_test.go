package hostpath

import (
	"testing"
)

func TestServed(t *testing.T) {
	m := &mounts{list: []mount{
		{at: "/", fsType: "ext4"},
		{at: "/home", fsType: "xfs"},
		{at: "/home/me/remote", fsType: "fuse.sshfs"},
		{at: "/home/me/remote/disk", fsType: "ext4"},
		{at: "/mnt", fsType: "nfs4"},
		{at: "/mnt/deep", fsType: "9p"},
		{at: "/tmp", fsType: "tmpfs"},
	}}
	for path, want := range map[string]string{
		"/": "", "/home/me": "", "/home/me/remote": "/home/me/remote", "/home/me/remote/a/b": "/home/me/remote",
		"/home/me/remotely": "", "/home/me/remote/disk/x": "/home/me/remote", "/mnt/x": "/mnt", "/mnt/deep/x": "/mnt/deep", "/tmp/mnt": "",
	} {
		if got := m.served(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestReadMountsHasKinds(t *testing.T) {
	table, err := readMounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range table.list {
		if m.fsType == "" {
			t.Errorf("%s has no type", m.at)
		}
	}
	if err := Answers("/proc/self"); err != nil {
		t.Error(err)
	}
}
