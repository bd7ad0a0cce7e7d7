package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// host is a person's disk below a temporary directory.
type host struct{ base, home, state, app string }

func newHost(t testing.TB) (host, Rules) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	h := host{base: base, home: base + "/home/me", state: base + "/home/me/.local/share/bothy", app: base + "/home/me/app"}
	for _, d := range []string{h.state + "/sandboxes", h.app + "/sub", h.base + "/srv/data", h.base + "/home/meow", h.home + "/.local/share/bothyx", h.home + "/.ssh/keys", h.home + "/.config/nvim", h.home + "/.config/gh", h.base + "/a:b"} {
		must(t, os.MkdirAll(d, 0o755))
	}
	must(t, os.WriteFile(h.app+"/file", nil, 0o644))
	must(t, os.WriteFile(h.state+"/spec.json", nil, 0o644))
	return h, Rules{Home: h.home, State: h.state}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestParse(t *testing.T) {
	h, r := newHost(t)
	t.Chdir(h.app)
	must(t, os.Symlink(h.app, h.base+"/srv/link"))
	must(t, os.Mkdir(h.base+"/srv/x:ro", 0o755))
	tests := []struct {
		arg  string
		want spec.Mount
		err  error
	}{
		{".", spec.Mount{Source: h.app, Target: h.app}, nil},
		{"sub", spec.Mount{Source: h.app + "/sub", Target: h.app + "/sub"}, nil},
		{"./sub/../sub//", spec.Mount{Source: h.app + "/sub", Target: h.app + "/sub"}, nil},
		{h.app + ":ro", spec.Mount{Source: h.app, Target: h.app, ReadOnly: true}, nil},
		{".:ro", spec.Mount{Source: h.app, Target: h.app, ReadOnly: true}, nil},
		{"file", spec.Mount{Source: h.app + "/file", Target: h.app + "/file"}, nil},
		{h.base + "/srv/link", spec.Mount{Source: h.app, Target: h.app}, nil},
		{h.base + "/srv/link/sub", spec.Mount{Source: h.app + "/sub", Target: h.app + "/sub"}, nil},
		{"~/app", spec.Mount{Source: h.app, Target: h.app}, nil},
		{h.base + "/a:b", spec.Mount{Source: h.base + "/a:b", Target: h.base + "/a:b"}, nil},
		{h.base + "/srv/x:ro:ro", spec.Mount{Source: h.base + "/srv/x:ro", Target: h.base + "/srv/x:ro", ReadOnly: true}, nil},
		{"", spec.Mount{}, spec.ErrUsage},
		{":ro", spec.Mount{}, spec.ErrUsage},
		{"missing", spec.Mount{}, spec.ErrNotFound},
		{"~me/app", spec.Mount{}, spec.ErrNotFound},
		{"file/below", spec.Mount{}, errors.ErrUnsupported},
		{"sub:rw", spec.Mount{}, spec.ErrNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.arg, func(t *testing.T) {
			got, err := r.Parse(tt.arg)
			if tt.err != nil {
				if err == nil || !errors.Is(tt.err, errors.ErrUnsupported) && !errors.Is(err, tt.err) {
					t.Errorf("Parse() = %v, %v, want %v", got, err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("Parse() = %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseVolume(t *testing.T) {
	h, r := newHost(t)
	data := h.base + "/srv/data"
	tests := []struct {
		arg  string
		want spec.Mount
		err  error
	}{
		{data, spec.Mount{Source: data, Target: data}, nil},
		{data + ":ro", spec.Mount{Source: data, Target: data, ReadOnly: true}, nil},
		{data + ":rw", spec.Mount{Source: data, Target: data}, nil},
		{data + ":/mnt", spec.Mount{Source: data, Target: "/mnt"}, nil},
		{data + ":/mnt/../x//y/:ro", spec.Mount{Source: data, Target: "/x/y", ReadOnly: true}, nil},
		{data + ":/mnt:rw", spec.Mount{Source: data, Target: "/mnt"}, nil},
		{"~/app:/app", spec.Mount{Source: h.app, Target: "/app"}, nil},
		{data + ":mnt", spec.Mount{}, spec.ErrUsage},
		{data + ":", spec.Mount{}, spec.ErrUsage},
		{data + "::ro", spec.Mount{}, spec.ErrUsage},
		{data + ":/a:/b", spec.Mount{}, spec.ErrUsage},
		{data + ":/a:z", spec.Mount{}, spec.ErrUsage},
		{":/mnt", spec.Mount{}, spec.ErrUsage},
		{"", spec.Mount{}, spec.ErrUsage},
		{h.base + "/none:/mnt", spec.Mount{}, spec.ErrNotFound},
		{h.home + ":/mnt:ro", spec.Mount{}, spec.ErrDenied},
		{"/:/mnt:ro", spec.Mount{}, spec.ErrDenied},
		{h.state + ":/mnt:ro", spec.Mount{}, spec.ErrDenied},
		{"/proc/1:/mnt", spec.Mount{}, spec.ErrDenied},
	}
	for _, tt := range tests {
		t.Run(tt.arg, func(t *testing.T) {
			got, err := r.ParseVolume(tt.arg)
			if tt.err != nil {
				if !errors.Is(err, tt.err) {
					t.Errorf("ParseVolume() = %v, %v, want %v", got, err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("ParseVolume() = %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

// TestJudge checks which paths are rejected, and which of these can be forced (D3, D7).
func TestJudge(t *testing.T) {
	const (
		fine     = "fine"
		forcible = "only when forced"
		written  = "read-only, or when forced"
		never    = "never"
	)
	h, r := newHost(t)
	links := map[string]string{
		"/srv/tohome": h.home, "/srv/tosystem": "/usr/bin", "/srv/toroot": "/", "/srv/tostate": h.state, "/srv/tosandboxes": "tostate/sandboxes",
		"/srv/tokeys": h.home + "/.ssh",
		"/srv/toproc": "/proc", "/srv/todev": "/dev", "/srv/relative": "../home/me", "/srv/chain": "relative",
	}
	for name, to := range links {
		must(t, os.Symlink(to, h.base+name))
	}
	tests := []struct{ path, want string }{
		{h.app, fine},
		{h.app + "/sub", fine},
		{h.app + "/file", fine},
		{h.base + "/srv", fine},
		{h.base + "/home/meow", fine},
		{h.home + "/.local/share/bothyx", fine},
		{"/usr", written},
		{"/usr/bin", written},
		{"/usr/local/bin/", written},
		{"/boot", written},
		{"/opt", written},
		{h.base + "/srv/tosystem", written},
		{"/proc/self/root/usr/bin", written},
		{"/home", forcible},
		{"/usr/share/doc", fine},
		{h.home, forcible},
		{h.home + "/", forcible},
		{h.home + "/app/..", forcible},
		{h.home + "/.", forcible},
		{h.base + "/home", forcible},
		{h.base, forcible},
		{"/", forcible},
		{"//", forcible},
		{"/usr/..", forcible},
		{h.home + "/.ssh", forcible},
		{h.home + "/.ssh/keys", forcible},
		{h.home + "/.config", forcible},
		{h.home + "/.config/nvim", fine},
		{h.home + "/.config/gh", forcible},
		{h.base + "/srv/tokeys", forcible},
		{h.base + "/srv/tokeys/keys", forcible},
		{h.home + "/.local", forcible},
		{h.home + "/.local/share", forcible},
		{h.base + "/srv/tohome", forcible},
		{h.base + "/srv/toroot", forcible},
		{h.base + "/srv/relative", forcible},
		{h.base + "/srv/chain/", forcible},
		{h.state, never},
		{h.state + "/sandboxes", never},
		{h.state + "/spec.json", never},
		{h.state + "/", never},
		{h.base + "/srv/tostate", never},
		{h.base + "/srv/tosandboxes", never},
		{"/proc", never},
		{"/proc/self", never},
		{"/proc/self/root/proc", never},
		{"/sys", never},
		{"/sys/fs", never},
		{"/dev", never},
		{"/dev/null", never},
		{"/dev/shm", fine},
		{"/dev/shm/..", never},
		{h.base + "/srv/toproc", never},
		{h.base + "/srv/todev", never},
		{h.base + "/srv/todev/shm", fine},
	}
	for _, tt := range tests {
		t.Run(strings.ReplaceAll(tt.path, "/", "_"), func(t *testing.T) {
			if _, err := os.Stat(tt.path); err != nil {
				t.Skipf("not on this host: %v", err)
			}
			for _, force := range []bool{false, true} {
				r := r
				r.Force = force
				for _, arg := range []string{tt.path, tt.path + ":ro"} {
					m, err := r.Parse(arg)
					if allowed := tt.want == fine || force && tt.want != never || tt.want == written && strings.HasSuffix(arg, ":ro"); (err == nil) != allowed {
						t.Errorf("%s, forced %t: %v; it is %s", arg, force, err, tt.want)
					}
					if err != nil && (!errors.Is(err, spec.ErrDenied) || spec.Hint(err) == "") {
						t.Errorf("%s: %v has hint %q", arg, err, spec.Hint(err))
					}
					if err == nil && m.Source == "/" && m.Target != WholeDisk {
						t.Errorf("the whole disk lies at %s", m.Target)
					}
				}
			}
		})
	}
}

// TestJudgeThroughLinks checks that the rules hold if their own paths contain links.
func TestJudgeThroughLinks(t *testing.T) {
	h, _ := newHost(t)
	must(t, os.Symlink(h.home, h.base+"/h"))
	must(t, os.Symlink(h.state, h.base+"/s"))
	r := Rules{Home: h.base + "/h", State: h.base + "/s"}
	for _, path := range []string{h.home, h.base + "/h", h.state, h.base + "/s", h.state + "/sandboxes", h.base + "/home"} {
		if _, err := r.Parse(path); !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s: %v", path, err)
		}
	}
	got := r.HiddenNames(spec.Mount{Source: h.home, Target: "/proj"})
	if want := []string{"/proj/.local/share/bothy"}; !reflect.DeepEqual(got, want) {
		t.Errorf("hidden: %q, want %q", got, want)
	}
}

// TestJudgeNoHome checks that the other rules hold without a home or a state directory.
func TestJudgeNoHome(t *testing.T) {
	h, _ := newHost(t)
	r := Rules{}
	if _, err := r.Parse(h.home); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/", "/proc"} {
		if _, err := r.Parse(path); !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := r.Parse("~/app"); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("~ of nobody: %v", err)
	}
}

func TestParseRefusesOtherFiles(t *testing.T) {
	h, r := newHost(t)
	t.Chdir(h.app) // short names for the socket
	must(t, unix.Mkfifo("pipe", 0o600))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: "docker.sock"}))
	must(t, os.Symlink("docker.sock", "link"))
	must(t, os.Symlink("loop", "loop"))
	for _, name := range []string{"pipe", "docker.sock", "link"} {
		if _, err := r.Parse(name); !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.ParseVolume(name + ":/mnt:ro"); !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s as a volume: %v", name, err)
		}
	}
	if _, err := r.Parse("loop"); err == nil {
		t.Error("a link to itself was resolved")
	}
	must(t, os.Mkdir("a\nb", 0o755))
	if _, err := r.Parse("a\nb"); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("a name with a line break: %v", err)
	}
}

func TestCheck(t *testing.T) {
	h, _ := newHost(t)
	at := func(path string) spec.Mount { return spec.Mount{Source: path, Target: path} }
	file, dir := at(h.app+"/file"), at(h.app)
	tests := []struct {
		name       string
		workspaces []spec.Mount
		volumes    []spec.Mount
		private    []string
		ok         bool
	}{
		{"nothing", nil, nil, nil, true},
		{"a directory", []spec.Mount{dir}, nil, nil, true},
		{"a file second", []spec.Mount{dir, file}, nil, nil, true},
		{"a file first", []spec.Mount{file}, nil, nil, false},
		{"a file as a volume", nil, []spec.Mount{file}, nil, true},
		{"the same twice", []spec.Mount{dir, dir}, nil, nil, false},
		{"the same as a volume", []spec.Mount{dir}, []spec.Mount{{Source: h.base, Target: h.app}}, nil, false},
		{"one source at two places", []spec.Mount{dir}, []spec.Mount{{Source: h.app, Target: "/mnt"}}, nil, true},
		{"one in the other", []spec.Mount{dir, at(h.app + "/sub")}, nil, nil, true},
		{"private", []spec.Mount{dir}, nil, []string{h.app + "/sub"}, true},
		{"private twice", []spec.Mount{dir}, nil, []string{h.app + "/sub", h.app + "/sub"}, false},
		{"private and shared", []spec.Mount{dir, at(h.app + "/sub")}, nil, []string{h.app + "/sub"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.workspaces)
			if err := Check(&spec.Sandbox{Workspaces: tt.workspaces, Volumes: tt.volumes, Private: tt.private}); (err == nil) != tt.ok {
				t.Errorf("Check() = %v", err)
			}
			if !reflect.DeepEqual(before, tt.workspaces) {
				t.Error("the arguments were changed")
			}
		})
	}
}

func TestCheckMode(t *testing.T) {
	h, _ := newHost(t)
	at := func(path string, ro bool) spec.Mount { return spec.Mount{Source: path, Target: path, ReadOnly: ro} }
	for _, tt := range []struct {
		name string
		list []spec.Mount
		ok   bool
	}{
		{"a directory", []spec.Mount{at(h.app, false)}, true},
		{"and a file to read", []spec.Mount{at(h.app, false), at(h.app+"/file", true)}, true},
		{"and a file to write", []spec.Mount{at(h.app, false), at(h.app+"/file", false)}, false},
		{"nothing to write", []spec.Mount{at(h.app, true)}, false},
		{"nothing", nil, false},
	} {
		for _, mode := range []string{spec.WorkspaceReview, spec.WorkspaceClone} {
			err := Check(&spec.Sandbox{WorkspaceMode: mode, Workspaces: tt.list})
			if (err == nil) != tt.ok || err != nil && !errors.Is(err, spec.ErrUsage) {
				t.Errorf("%s, %s: %v", tt.name, mode, err)
			}
		}
	}
}

func TestParsePrivate(t *testing.T) {
	h, _ := newHost(t)
	must(t, os.Mkdir(h.app+"/dir", 0o755))
	mounts := []spec.Mount{{Source: h.app, Target: h.app}, {Source: h.app, Target: "/mnt/app"}}
	for arg, want := range map[string]string{
		"node_modules":         h.app + "/node_modules", // which the host does not have
		"dir":                  h.app + "/dir",
		"./a/b/":               h.app + "/a/b",
		"/mnt/app/target":      "/mnt/app/target",
		".":                    "",
		"..":                   "",
		"../elsewhere":         "",
		"/mnt/app":             "",
		"/mnt/application/dir": "",
		"/tmp/x":               "",
		"file":                 "", // a file of the host
		"a\nb":                 "",
		"":                     "",
	} {
		got, err := ParsePrivate(arg, mounts)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParsePrivate(%q) = %q, %v", arg, got, err)
		}
		if err != nil && !errors.Is(err, spec.ErrUsage) {
			t.Errorf("ParsePrivate(%q): %v", arg, err)
		}
	}
	if _, err := ParsePrivate("x", nil); err == nil {
		t.Error("a private path without anything shared")
	}
}

func TestHidden(t *testing.T) {
	h, r := newHost(t)
	tests := []struct {
		name string
		m    spec.Mount
		want []string
	}{
		{"a project", spec.Mount{Source: h.app, Target: h.app}, nil},
		{"the home", spec.Mount{Source: h.home, Target: h.home}, []string{h.state}},
		{"the home, elsewhere", spec.Mount{Source: h.home, Target: "/mnt"}, []string{"/mnt/.local/share/bothy"}},
		{"the whole disk", spec.Mount{Source: "/", Target: WholeDisk}, []string{WholeDisk + h.state, "/host/proc", "/host/sys", "/host/dev"}},
		{"a neighbour of the state", spec.Mount{Source: h.home + "/.local/share/bothyx", Target: "/x"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.HiddenNames(tt.m); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Hidden() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	tests := []struct {
		dir, path string
		want      bool
	}{
		{"/a", "/a", true}, {"/a", "/a/b", true}, {"/a", "/ab", false}, {"/a/b", "/a", false}, {"/", "/a", true}, {"/", "/", true}, {"/a", "/", false},
	}
	for _, tt := range tests {
		if got := Within(tt.dir, tt.path); got != tt.want {
			t.Errorf("Within(%q, %q) = %t", tt.dir, tt.path, got)
		}
	}
}

// FuzzParse checks that Parse returns a real, absolute and allowed path for any spelling.
func FuzzParse(f *testing.F) {
	for _, arg := range []string{".", "..", "../..", "/", "//", "~/", "~/.", "~", "/proc/self/cwd", "/proc/self/root", "sub:ro", ":ro", "/dev/../home", "./file", "state/..", "link", "link/x", "/proc/self/fd/0", "a:/b", "a::", ":/mnt"} {
		f.Add(arg)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		h, r := newHost(t)
		must(t, os.Symlink("../..", h.app+"/link"))
		must(t, os.Symlink(h.state, h.app+"/state"))
		t.Chdir(h.app)
		for _, parse := range []func(string) (spec.Mount, error){r.Parse, r.ParseVolume} {
			m, err := parse(arg)
			if err != nil {
				continue
			}
			real, rerr := filepath.EvalSymlinks(m.Source)
			if rerr != nil || real != m.Source || !filepath.IsAbs(m.Target) || filepath.Clean(m.Target) != m.Target {
				t.Errorf("%q became %+v", arg, m)
			}
			for _, secret := range []string{h.home, h.state} {
				if Within(m.Source, secret) {
					t.Errorf("%q shares %s, and with it %s", arg, m.Source, secret)
				}
			}
			for _, tree := range append([]string{h.state}, kernelTrees...) {
				if Within(tree, m.Source) && !Within(sharedMemory, m.Source) {
					t.Errorf("%q shares %s", arg, m.Source)
				}
			}
		}
	})
}
