package rootfs

import (
	"maps"
	"os"
	"path"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/erofs"
	"github.com/bothy-dev/bothy/spec"
)

// imageWith returns the files of a sandbox's image. The beginning of a text makes it a program, or
// a link ("-> ").
func imageWith(t *testing.T, files map[string]string) *Files {
	t.Helper()
	i := &Files{
		Sandbox: &spec.Sandbox{Template: "img:v1", Image: &spec.Image{Name: "img:v1", Digest: "sha256:0"}},
		Root:    image.Root{Dir: t.TempDir(), Account: image.Account{Home: "/home/me"}, Env: []string{"PATH=/opt/bin:/bin"}},
	}
	name := i.Root.File()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := erofs.NewWriter(f)
	dir := func() *erofs.Node { return &erofs.Node{Mode: unix.S_IFDIR | 0o755, Entries: map[string]*erofs.Node{}} }
	top := dir()
	for name, text := range files {
		at := top
		for part := range strings.SplitSeq(path.Dir(name), "/") {
			if at.Entries[part] == nil {
				at.Entries[part] = dir()
			}
			at = at.Entries[part]
		}
		n := &erofs.Node{Mode: unix.S_IFREG | 0o644}
		if strings.HasPrefix(text, elf) || strings.HasPrefix(text, "#!") {
			n.Mode |= 0o111
		}
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			n.Mode, n.Target = unix.S_IFLNK|0o777, to
		} else if n.Data, err = w.Add(strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		at.Entries[path.Base(name)] = n
	}
	if err := w.Finish(top, 0); err != nil {
		t.Fatal(err)
	}
	return i
}

const header = "#define MAJOR 20\n#define MINOR 5\n#define PATCH 1\n"

// TestImageRuntime checks that a runtime of the image is used if a file beside it says that it is
// new enough, and is not used in doubt.
func TestImageRuntime(t *testing.T) {
	engine := &spec.Agent{Title: "Engine", Program: "engine", Told: &spec.AgentTold{
		File: "../include/engine/version.h", Lines: []string{"#define MAJOR ", "#define MINOR ", "#define PATCH "},
	}}
	usual := map[string]string{"opt/bin/engine": elf + "x", "opt/include/engine/version.h": header}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(usual)
		maps.Copy(all, more)
		return all
	}
	for what, x := range map[string]struct {
		files  map[string]string
		change func(*Files)
		least  string
		why    string // a part of it; empty: it is used
	}{
		"it is there":             {files: usual},
		"it is just new enough":   {files: usual, least: "20.5.1"},
		"it is too old":           {files: usual, least: "20.5.2", why: "is 20.5.1, and 20.5.2 is needed"},
		"there is none":           {files: map[string]string{"etc/os-release": "x"}, why: "has no engine"},
		"it lies elsewhere":       {files: map[string]string{"usr/lib/engine/bin/engine": elf + "x", "usr/lib/engine/include/engine/version.h": header, "bin/engine": "-> ../usr/lib/engine/bin/engine"}},
		"another lies before it":  {files: map[string]string{"opt/bin/engine": elf + "x", "bin/engine": elf + "x", "include/engine/version.h": header}, why: "no /opt/include/engine/version.h"},
		"no file tells":           {files: map[string]string{"opt/bin/engine": elf + "x"}, why: "no /opt/include/engine/version.h"},
		"the file leads nowhere":  {files: with(map[string]string{"opt/include/engine/version.h": "-> /nowhere"}), why: "no /nowhere"},
		"the file leads in rings": {files: with(map[string]string{"opt/include/engine/version.h": "-> version.h"}), why: "links"},
		"the file is large":       {files: with(map[string]string{"opt/include/engine/version.h": header + strings.Repeat("x", maxTold)}), why: "no /opt/include"},
		"the file tells nothing":  {files: with(map[string]string{"opt/include/engine/version.h": "x"}), why: "does not tell"},
		"a script stands for it":  {files: with(map[string]string{"opt/bin/engine": "#!/bin/sh"}), why: "is a script, not a program"},
		"nobody may run it":       {files: with(map[string]string{"opt/bin/engine": "x"}), why: "for everybody"},
		"it is at home":           {files: map[string]string{"home/me/.local/bin/engine": elf, "home/me/.local/include/engine/version.h": header}, why: "for everybody"},
		"the path is relative":    {files: usual, change: func(i *Files) { i.Root.Env = []string{"PATH=.:/opt/bin"} }, why: "not absolute"},
		"the image sets no path":  {files: map[string]string{"usr/bin/engine": elf, "usr/include/engine/version.h": header}, change: func(i *Files) { i.Root.Env = nil }},
		"a path of the sandbox":   {files: usual, change: func(i *Files) { i.Sandbox.Env = []string{"PATH=/x"} }, why: "PATH of its own"},
		"a saved template":        {files: usual, change: func(i *Files) { i.Sandbox.Template = "mine:v1" }, why: "mine:v1 has changed"},
		"a workspace hides it":    {files: usual, change: func(i *Files) { i.Sandbox.Workspaces = []spec.Mount{{Target: "/opt"}} }, why: "for everybody"},
		"something private does":  {files: usual, change: func(i *Files) { i.Sandbox.Private = []string{"/opt/bin"} }, why: "for everybody"},
		"the image is gone":       {files: usual, change: func(i *Files) { i.Root.Dir = "/nowhere" }, why: "/nowhere"},
	} {
		t.Run(what, func(t *testing.T) {
			i := imageWith(t, x.files)
			if x.change != nil {
				x.change(i)
			}
			if x.least == "" {
				x.least = "20.0.0"
			}
			why := i.Lacks(engine, x.least)
			if (why == "") != (x.why == "") || !strings.Contains(why, x.why) {
				t.Errorf("it lacks %q, not %q", why, x.why)
			}
		})
	}
	silent := &spec.Agent{Title: "Engine", Program: "engine"}
	if why := imageWith(t, usual).Lacks(silent, "1.0.0"); !strings.Contains(why, "not known which version") {
		t.Errorf("it lacks %q", why)
	}
}
