package test

import (
	"archive/tar"
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/test/harness"
)

// images is the container registry of a script, from its first command on.
type images struct {
	t        *testing.T
	registry *imagetest.Registry
	docker   *imagetest.Docker
}

// imagesKey is the key under which a script keeps it.
type imagesKey struct{}

// cmdImage is the script command image. "image publish REPOSITORY:TAG [USER [TEXT]]" makes an image with
// a few programs of the host, to be run as USER, with TEXT in /etc/os-release and in its user's home,
// and publishes it. IMAGES is the registry's host and port. "image save FILE TAG [USER [TEXT]]" writes
// one as docker save does, and "image layout DIR TAG …" as an OCI image layout. "image feature
// REPOSITORY:TAG DIR" publishes a feature of development containers. "image odd FILE TAG KIND" writes
// one with unusual content: see odd. "image docker TAG …" gives one to the Docker of this machine, as
// docker build does. "image stop" stops the registry: its address does not answer any more.
func cmdImage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: image publish|save|layout|daemon|docker|odd|stop")
	}
	i := ts.Value(imagesKey{}).(*images)
	if i.registry == nil {
		i.registry = imagetest.NewRegistry(i.t)
		ts.Setenv("IMAGES", i.registry.Host)
	}
	arg := func(n int) string {
		if n < len(args) {
			return args[n]
		}
		return ""
	}
	switch {
	case args[0] == "publish" && len(args) >= 2:
		repository, tag, ok := strings.Cut(args[1], ":")
		if !ok {
			ts.Fatalf("image publish: %s is not REPOSITORY:TAG", args[1])
		}
		i.registry.Publish(repository, tag, tiny(i.t, arg(2), arg(3)))
	case args[0] == "feature" && len(args) == 3:
		repository, tag, _ := strings.Cut(args[1], ":")
		i.registry.PublishFeature(i.t, repository, tag, archived(ts, ts.MkAbs(args[2])))
	case args[0] == "save" && len(args) >= 3:
		tiny(i.t, arg(3), arg(4)).Save(i.t, ts.MkAbs(args[1]), args[2])
	case args[0] == "layout" && len(args) >= 3:
		tiny(i.t, arg(3), arg(4)).Layout(i.t, ts.MkAbs(args[1]), args[2])
	case args[0] == "docker" && len(args) >= 2:
		if i.docker == nil {
			i.docker = imagetest.NewDocker(i.t, ts.Getenv("WORK"))
			ts.Setenv("DOCKER_HOST", "unix://"+i.docker.Socket)
		}
		i.docker.Tag(args[1], tiny(i.t, arg(2), arg(3)))
	case args[0] == "daemon" && len(args) == 3:
		withDocker(i.t).Save(i.t, ts.MkAbs(args[1]), args[2])
	case args[0] == "odd" && len(args) == 4 && odd[args[3]] != nil:
		imagetest.New(i.t, imagetest.Config{}, programs(i.t), imagetest.Layer(i.t, odd[args[3]]...)).Save(i.t, ts.MkAbs(args[1]), args[2])
	case args[0] == "stop" && len(args) == 1:
		i.registry.Close()
	default:
		ts.Fatalf("image: cannot %q", args)
	}
}

// archived returns a directory as a tar archive.
func archived(ts *testscript.TestScript, dir string) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	ts.Check(w.AddFS(os.DirFS(dir)))
	ts.Check(w.Close())
	return out.Bytes()
}

// odd are layers over an image that make it look like one of a hostile maker, or of a careless one: none
// of it has a meaning outside.
var odd = map[string][]imagetest.Entry{
	"engine": {
		imagetest.Symlink("usr/bin/env", "/bin/env"), imagetest.Symlink("usr/bin/engine", "/bin/sh"),
		imagetest.File("include/engine.h", "#define MAJOR 3\n#define MINOR 1\n#define PATCH 0\n"),
	},
	"links": {
		imagetest.Symlink("proc", "/etc"), imagetest.Symlink("dev", "/root"), imagetest.Symlink("sys", "../../.."),
		imagetest.Symlink("tmp", "/nowhere"), imagetest.Symlink(".bothy", "/tmp"), imagetest.Symlink("home", "/var/homes"), imagetest.Dir("var/homes"),
		imagetest.Symlink("etc/resolv.conf", "/proc/1/environ"), imagetest.Symlink("etc/hosts", "/etc/hosts"), imagetest.Symlink("etc/passwd", "../../../../etc/shadow"),
	},
	"homeless": {imagetest.Symlink("root", "var/roothome")},
	"looped":   {imagetest.Symlink("root", "/root")},
	"files": {
		imagetest.File("proc", "x"), imagetest.File("dev", "x"), imagetest.File("tmp", "x"), imagetest.File(".bothy", "x"), imagetest.File("run", "x"),
	},
}

// tiny returns an image with a few programs.
func tiny(t *testing.T, user, text string) *imagetest.Image {
	t.Helper()
	if text == "" {
		text = "tiny"
	}
	return imagetest.New(t, imagetest.Config{User: user, Env: []string{"PATH=/opt/bin:/bin", "FROM_IMAGE=yes"}, Workdir: "/srv/work"},
		programs(t),
		imagetest.Layer(t,
			imagetest.File("etc/os-release", "NAME="+text+"\n"),
			imagetest.File("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\nweb:x:33:33::/var/www:/bin/sh\n"),
			imagetest.File("etc/group", "root:x:0:\nnode:x:1000:\nweb:x:33:node\n"),
			imagetest.File("root/.seed", text+"\n"),
			imagetest.Dir("home/node").Owned(1000, 1000), imagetest.File("home/node/.seed", text+"\n").Owned(1000, 1000),
			imagetest.Dir("opt/own").Owned(1000, 1000), imagetest.Dir("opt/web").Owned(33, 33),
			imagetest.Program("opt/bin/tool", "#!/bin/sh\necho tool of "+text+"\n"),
			imagetest.File("removed", "x"),
		),
		imagetest.Layer(t, imagetest.File(".wh.removed", "")),
	)
}

// withDocker makes an image with the Docker of this host.
func withDocker(t *testing.T) *imagetest.Image {
	t.Helper()
	docker := layerOf(t, "dockerd", "docker", "containerd", "containerd-shim-runc-v2", "runc", "docker-proxy", "docker-init")
	return imagetest.New(t, imagetest.Config{User: "node", Labels: map[string]string{image.DockerLabel: "true"}}, programs(t), docker,
		imagetest.Layer(t,
			imagetest.File("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n"),
			imagetest.File("etc/group", "root:x:0:\nnode:x:1000:\n"),
			imagetest.Dir("home/node").Owned(1000, 1000),
		))
}

// programs returns a layer of programs of this host.
func programs(t *testing.T) []byte {
	t.Helper()
	return layerOf(t, "cat", "id", "ls", "rm", "stat", "mkdir", "chown", "readlink", "touch", "env", "grep", "sleep", "true", "chmod", "ln", "truncate", "getent")
}

// layerOf returns a layer of programs of this host with the libraries that they are linked to.
func layerOf(t *testing.T, names ...string) []byte {
	t.Helper()
	files := harness.Programs(t, names...)
	var list []imagetest.Entry
	for _, to := range slices.Sorted(maps.Keys(files)) {
		b, err := os.ReadFile(files[to])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, imagetest.Program(strings.TrimPrefix(to, "/"), string(b)))
	}
	return imagetest.Layer(t, list...)
}
