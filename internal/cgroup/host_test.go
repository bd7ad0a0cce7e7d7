package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestParseMount(t *testing.T) {
	tests := []struct {
		line string
		want mount
		ok   bool
	}{
		{
			`36 31 0:31 /docker/1 /sys/fs/cgroup/cpu,cpuacct ro,nosuid shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct`,
			mount{"/docker/1", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", []string{"rw", "cpu", "cpuacct"}},
			true,
		},
		{
			`41 31 0:38 / /sys/fs/a\040b\134c rw - cgroup2 cgroup2 rw`,
			mount{"/", `/sys/fs/a b\c`, "cgroup2", []string{"rw"}},
			true,
		},
		{``, mount{}, false},
		{`1 2 0:3 / /x rw`, mount{}, false},
		{`1 - cgroup`, mount{}, false},
	}
	for _, tt := range tests {
		got, ok := parseMount(tt.line)
		same := got.root == tt.want.root && got.point == tt.want.point && got.kind == tt.want.kind &&
			slices.Equal(got.options, tt.want.options)
		if ok != tt.ok || !same {
			t.Errorf("parseMount(%q) = %+v, %v", tt.line, got, ok)
		}
	}
}

func TestMountDir(t *testing.T) {
	point := t.TempDir()
	if err := os.Mkdir(filepath.Join(point, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		root, group, want string // want "" means it is not visible
	}{
		{"/", "/", point},
		{"/", "/sub", point + "/sub"},
		{"/", "/sub (deleted)", ""},
		{"/docker/1", "/docker/1", point},
		{"/docker/1", "/docker/1/sub", point + "/sub"},
		{"/docker/1", "/docker/12", ""},
		{"/docker/1", "/", ""},
		{"/..", "/", ""},
		{"/", "/../sub", ""},
	}
	for _, tt := range tests {
		dir, ok := mount{root: tt.root, point: point}.dirOfGroup(tt.group)
		if ok != (tt.want != "") || ok && dir != tt.want {
			t.Errorf("group %s through root %s: %q, %v, want %q", tt.group, tt.root, dir, ok, tt.want)
		}
	}
}
