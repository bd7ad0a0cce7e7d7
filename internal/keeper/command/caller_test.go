package command

import (
	"reflect"
	"testing"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

func TestSearchPath(t *testing.T) {
	caller := wire.Caller{Path: []string{"/project/bin", "/home/u/bin", "/usr/local/go/bin", "/usr/bin", "/projectbench", "/project/.git/state/x", "/private/x"}}
	who := wire.Account{Home: "/home/u"}
	shared := []spec.Mount{{Source: "/project", Target: "/project"}, {Source: "/private", Target: "/elsewhere"}}
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{
			"host",
			Options{Spec: &spec.Sandbox{Workspaces: shared}, Launch: &launch.Settings{Hidden: []string{"/project/.git/state"}}},
			"/.bothy/bin:/home/u/.local/bin:/usr/local/go/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin:/project/bin",
		},
		{
			"tasks",
			Options{Spec: &spec.Sandbox{Tasks: spec.TasksRead}, Launch: &launch.Settings{}},
			"/.bothy/bin:/.bothy/tasks:/home/u/.local/bin:/usr/local/go/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin",
		},
		{
			"image",
			Options{Spec: &spec.Sandbox{Workspaces: shared[:1]}, Launch: &launch.Settings{Hidden: []string{"/project/.git/state"}, Image: &image.Root{Env: []string{"PATH=/own:/bin"}}}},
			"/.bothy/bin:/home/u/.local/bin:/own:/bin:/project/bin",
		},
		{
			"devcontainer",
			Options{Spec: &spec.Sandbox{Workspaces: shared, Devcontainer: &spec.Devcontainer{Env: []string{"PATH=/dev/own"}}}, Launch: &launch.Settings{}},
			"/.bothy/bin:/home/u/.local/bin:/dev/own",
		},
	} {
		if got := New(tt.o).searchPath(who, caller); got != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.name, got, tt.want)
		}
	}
}

func TestKeepOwn(t *testing.T) {
	k := New(Options{Spec: &spec.Sandbox{Tasks: spec.TasksRead}})
	for have, want := range map[string]string{
		"/bin": "/.bothy/bin:/.bothy/tasks:/bin", "": "/.bothy/bin:/.bothy/tasks",
		"/bin:/.bothy/bin": "/.bothy/tasks:/bin:/.bothy/bin", "/.bothy/tasks:/.bothy/bin": "/.bothy/tasks:/.bothy/bin",
	} {
		env := []string{"A=1", "PATH=" + have}
		if k.keepOwn(env); env[1] != "PATH="+want {
			t.Errorf("%q became %s, want %s", have, env[1], want)
		}
	}
}

func TestNamedDir(t *testing.T) {
	a, b := spec.Named{Path: "/code/a", Target: "/data/a"}, spec.Named{Path: "/link", Target: "/data/a"}
	for _, tt := range []struct {
		dir, at, pwd string
		asked        bool
		led, named   []spec.Named
	}{
		{"/data/a", "/code/a", "/code/a", false, []spec.Named{b, a}, []spec.Named{a, b}},
		{"/data/a", "/link", "/link", false, []spec.Named{b}, []spec.Named{a, b}},
		{"/data/a", "/data/a", "", false, nil, []spec.Named{a, b}},
		{"/data/a", "/data/a", "", true, []spec.Named{a}, []spec.Named{a}},
		{"/code/a/sub", "/code/a/sub", "/code/a/sub", true, []spec.Named{a}, []spec.Named{a}},
		{"/code/ab", "/code/ab", "", true, []spec.Named{a}, []spec.Named{a}},
	} {
		if at, pwd := namedDir(tt.dir, tt.asked, tt.led, tt.named); at != tt.at || pwd != tt.pwd {
			t.Errorf("%+v: %s, %q", tt, at, pwd)
		}
	}
}

func TestLanguage(t *testing.T) {
	c := wire.Caller{Locale: []string{"LANG=de_DE.UTF-8", "LC_ALL=C"}, Zone: "Europe/Berlin"}
	set := c
	set.TZ = "UTC+3"
	img := &image.Root{}
	for _, tt := range []struct {
		l    launch.Settings
		c    wire.Caller
		want []string
	}{
		{launch.Settings{}, c, []string{"LANG=de_DE.UTF-8", "LC_ALL=C"}},
		{launch.Settings{}, set, []string{"LANG=de_DE.UTF-8", "LC_ALL=C", "TZ=UTC+3"}},
		{launch.Settings{Image: img}, set, []string{"LC_ALL=C"}},
		{launch.Settings{Image: img, Zones: true}, set, []string{"LC_ALL=C", "TZ=UTC+3"}},
		{launch.Settings{Image: img, Zones: true}, c, []string{"LC_ALL=C", "TZ=Europe/Berlin"}},
	} {
		k := New(Options{Launch: &tt.l})
		if got := k.language(tt.c); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.l, got, tt.want)
		}
	}
}
