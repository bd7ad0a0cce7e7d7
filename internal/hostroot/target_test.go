package hostroot

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func TestTargets(t *testing.T) {
	s := fakeHost(t)
	symlink(t, s, "/tmp", "/usr/linked")
	tests := map[string]struct {
		targets []Target
		absent  []string // of these targets, nothing is made
		want    string   // the message, empty for none
	}{
		"outside":            {targets: []Target{{"/proj/a/b/c", true}, {"/proj/a/f", false}, {"/data", true}}},
		"in the skeleton":    {targets: []Target{{"/mnt", true}, {"/srv/www", true}, {"/tmp", true}, {"/run", true}, {"/root", true}}},
		"below tmp":          {targets: []Target{{"/tmp/a", true}, {"/var/tmp/f", false}, {"/run/user/1000", true}}},
		"exists in usr":      {targets: []Target{{"/usr/local", true}, {"/usr/bin/tool", false}, {"/opt/vendor", true}, {"/opt", true}}},
		"file of etc":        {targets: []Target{{"/etc/services", false}, {"/etc/passwd", false}, {"/etc/profile.d", true}}},
		"below home":         {targets: []Target{{"/home/someone/a/b", true}, {"/home/someone/.config/f", false}}, absent: []string{"/home/someone/a", "/home/someone/.config"}},
		"below a target":     {targets: []Target{{"/proj/a", true}, {"/proj/a/node_modules", true}, {"/usr/local", true}, {"/usr/local/new", true}}, absent: []string{"/proj/a/node_modules", "/usr/local/new"}},
		"above home":         {targets: []Target{{"/home", true}, {"/home/other", true}}, absent: []string{"/home/other", "/home/someone"}},
		"twice":              {targets: []Target{{"/proj/a", true}, {"/proj/a", true}}},
		"odd names":          {targets: []Target{{"/a b/\n/\xff", true}, {"/...", true}}},
		"new in usr":         {targets: []Target{{"/usr/new", true}}, want: "mount target /usr/new does not exist in the template and cannot be created"},
		"new below usr":      {targets: []Target{{"/usr/local/new/a", true}}, want: "mount target /usr/local/new/a does not exist in the template and cannot be created"},
		"new in etc":         {targets: []Target{{"/etc/new", false}}, want: "mount target /etc/new does not exist in the template and cannot be created"},
		"left out of etc":    {targets: []Target{{"/etc/shadow", false}}, want: "mount target /etc/shadow does not exist in the template and cannot be created"},
		"new in opt":         {targets: []Target{{"/opt/new", true}}, want: "mount target /opt/new does not exist in the template and cannot be created"},
		"new in dpkg":        {targets: []Target{{"/var/lib/dpkg/new", true}}, want: "mount target /var/lib/dpkg/new does not exist in the template and cannot be created"},
		"new in a cover":     {targets: []Target{{"/var/lib/apt/lists/partial/n", true}}, want: "mount target /var/lib/apt/lists/partial/n does not exist in the template and cannot be created"},
		"dir over file":      {targets: []Target{{"/usr/bin/tool", true}}, want: "mount target /usr/bin/tool cannot be used: /usr/bin/tool is a file in the template"},
		"file over dir":      {targets: []Target{{"/usr/local", false}}, want: "mount target /usr/local cannot be used: /usr/local is a directory in the template, and its source is none"},
		"below a file":       {targets: []Target{{"/usr/bin/tool/x", true}}, want: "mount target /usr/bin/tool/x cannot be used: /usr/bin/tool is a file in the template"},
		"through a link":     {targets: []Target{{"/usr/linked/x", true}}, want: "mount target /usr/linked/x cannot be used: /usr/linked is a symbolic link in the template"},
		"a link":             {targets: []Target{{"/usr/linked", true}}, want: "mount target /usr/linked cannot be used: /usr/linked is a symbolic link in the template"},
		"through bin":        {targets: []Target{{"/bin/tool", false}}, want: "mount target /bin/tool cannot be used: /bin is a symbolic link in the template"},
		"through var/run":    {targets: []Target{{"/var/run/x", true}}, want: "mount target /var/run/x cannot be used: /var/run is a symbolic link in the template"},
		"below a file mount": {targets: []Target{{"/proj/f", false}, {"/proj/f/x", true}}, want: "mount target /proj/f/x: target /proj/f is a file"},
		"root":               {targets: []Target{{"/", true}}, want: "mount target /: it would replace the whole root"},
		"proc":               {targets: []Target{{"/proc", true}}, want: "mount target /proc: /proc belongs to the sandbox's kernel"},
		"below sys":          {targets: []Target{{"/sys/fs/cgroup", true}}, want: "mount target /sys/fs/cgroup: /sys belongs to the sandbox's kernel"},
		"dev":                {targets: []Target{{"/dev/shm", true}}, want: "mount target /dev/shm: /dev belongs to the sandbox's kernel"},
		"ours":               {targets: []Target{{"/.bothy/bin", true}}, want: "mount target /.bothy/bin: /.bothy belongs to Bothy"},
		"usr":                {targets: []Target{{"/usr", true}}, want: "mount target /usr: it would hide the programs the sandbox works with"},
		"lib64":              {targets: []Target{{"/lib64", true}}, want: "mount target /lib64: it would hide the programs the sandbox works with"},
		"etc":                {targets: []Target{{"/etc", true}}, want: "mount target /etc: it would hide the programs the sandbox works with"},
		"relative":           {targets: []Target{{"work", true}}, want: `mount target "work" is not a clean absolute path`},
		"dots":               {targets: []Target{{"/proj/../usr", true}}, want: `mount target "/proj/../usr" is not a clean absolute path`},
		"slash at the end":   {targets: []Target{{"/proj/", true}}, want: `mount target "/proj/" is not a clean absolute path`},
		"nul":                {targets: []Target{{"/proj\x00", true}}, want: `mount target "/proj\x00" is not a clean absolute path`},
		"empty":              {targets: []Target{{"", true}}, want: `mount target "" is not a clean absolute path`},
	}
	needNamespace(t)
	h := prepare(t, s, newCache(t))
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := newRoot(t)
			err := h.Assemble(dir, Options{Program: testProgram, ID: "1", Hostname: "h", Targets: tt.targets})
			if tt.want == "" {
				must(t, err)
				checkTargets(t, dir, tt.targets, tt.absent)
				return
			}
			if err == nil || err.Error() != tt.want || !errors.Is(err, spec.ErrUsage) {
				t.Errorf("got %v; want %s", err, tt.want)
			}
		})
	}
	if exists(s.path("/usr/new")) || exists(s.path("/opt/new")) || list(t, s.path("/usr")) != "bin linked local" {
		t.Error("something was made on the host")
	}
}

func checkTargets(t *testing.T, dir string, targets []Target, absent []string) {
	t.Helper()
	for _, p := range absent {
		if exists(dir + p) {
			t.Errorf("%s was made below another mount", p)
		}
	}
	for _, target := range targets {
		info, err := os.Stat(dir + target.Path)
		within := func(p string) bool { return target.Path == p || strings.HasPrefix(target.Path, p+"/") }
		if !slices.ContainsFunc(absent, within) && (err != nil || info.IsDir() != target.Dir) {
			t.Errorf("mount point %s: %v", target.Path, err)
		}
	}
}

// TestCheckMounts checks that a target below another mount, or in the shared memory, is allowed.
func TestCheckMounts(t *testing.T) {
	for name, tt := range map[string]struct {
		targets string
		ok      bool
	}{
		"none":                     {"", true},
		"plain ones":               {"/proj /mnt/data /tmp /tmp/x", true},
		"below another":            {"/proj /proj/a/b", true},
		"in the shared memory":     {"/dev/shm/x", true},
		"below one there":          {"/dev/shm/x/y /dev/shm/x", true},
		"the shared memory itself": {"/dev/shm", true},
		"beside it":                {"/dev/shmem", false},
		"a device":                 {"/proj /dev/null", false},
		"below one of the kernel":  {"/proc /proc/self", false},
		"Bothy's own":              {"/.bothy/agent", false},
		"below Bothy's own":        {"/.bothy/agent/bin", false},
		"programs":                 {"/usr", false},
		"the root":                 {"/proj / /proj/a", false},
		"not clean":                {"/proj /proj/../proc", false},
		"not clean in memory":      {"/dev/shm/../null", false},
		"relative":                 {"proj", false},
	} {
		if err := CheckMounts(strings.Fields(tt.targets)); (err == nil) != tt.ok || err != nil && !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
