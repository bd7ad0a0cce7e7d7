package test

import (
	"archive/tar"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bothy-dev/bothy/internal/agent/registrytest"
)

// registry is the npm registry of a script, from its first command on.
type registry struct {
	t        *testing.T
	server   *registrytest.Registry
	versions map[string]*registrytest.Version // by NAME@VERSION
}

// registryKey is the key under which a script keeps it.
type registryKey struct{}

// cmdRegistry is the script command registry. "registry publish NAME@VERSION DIR [PART...]" makes a
// package from a directory. Packages of the same version belong to it as parts. Files that begin with #!
// are programs. The commands of a package.json there are published as registries do. "registry corrupt
// NAME@VERSION" changes its bytes and not its hash. "registry stop" stops it: its address does not
// answer any more.
func cmdRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: registry publish|corrupt|stop")
	}
	r := ts.Value(registryKey{}).(*registry)
	if r.server == nil {
		r.server = registrytest.New(r.t)
		for _, kv := range r.server.Env(r.t) {
			if name, value, _ := strings.Cut(kv, "="); name != "HOME" {
				ts.Setenv(name, value)
			}
		}
	}
	switch {
	case args[0] == "publish" && len(args) >= 3:
		r.publish(ts, args[1], ts.MkAbs(args[2]), args[3:])
	case args[0] == "corrupt" && len(args) == 2 && r.versions[args[1]] != nil:
		r.server.Replace(r.versions[args[1]], []byte("evil"))
	case args[0] == "stop" && len(args) == 1:
		r.server.Close()
	default:
		ts.Fatalf("registry: cannot %q", args)
	}
}

func (r *registry) publish(ts *testscript.TestScript, what, dir string, parts []string) {
	at := strings.LastIndexByte(what, '@')
	if at < 1 {
		ts.Fatalf("registry publish: %s is not NAME@VERSION", what)
	}
	name, version := what[:at], what[at+1:]
	var entries []registrytest.Entry
	var about struct {
		Bin map[string]string
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		e := registrytest.Entry{Header: tar.Header{Name: "package/" + rel}, Body: string(body)}
		if strings.HasPrefix(e.Body, "#!") {
			e.Mode = 0o755
		}
		entries = append(entries, e)
		if rel == "package.json" {
			err = json.Unmarshal(body, &about)
		}
		return err
	})
	ts.Check(err)
	v := r.server.Publish(name, version, registrytest.Tarball(r.t, entries...))
	v.Bin = about.Bin
	for _, part := range parts {
		if v.Optional == nil {
			v.Optional = map[string]string{}
		}
		v.Optional[part] = version
	}
	r.versions[what] = v
}
