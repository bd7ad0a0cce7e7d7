// Package devcontainer reads devcontainer.json, the description of a development environment that
// editors know (containers.dev), and says which of its settings apply to a sandbox. It opens nothing and
// runs nothing.
//
// Such a file comes from a repository, whose author may be hostile. Bothy ignores its requests to the
// host and reports them: commands, directories, environment variables, options of docker. Bothy grants
// its requests for the inside, since the wall confines their effects. Types are strict. An unknown key
// is reported and ignored.
package devcontainer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// MaxSize bounds a devcontainer.json, and the metadata of a feature or an image, in bytes.
const MaxSize = 128 << 10

// File is the part of a devcontainer.json that Bothy uses.
type File struct {
	Image    string // the base image; empty if it is built
	Build    *Build
	Features []Use // in the order of the file
	Order    []string
	Settings
	// Notes list ignored parts, with alternatives.
	Notes []string

	forward []string
}

// Settings are the settings that features and images may also have.
type Settings struct {
	// ContainerEnv and RemoteEnv are variables of all commands.
	ContainerEnv, RemoteEnv []Variable
	// ContainerUser and RemoteUser are users of commands. RemoteUser wins.
	ContainerUser, RemoteUser string
	// Volumes are paths inside that get a directory of the sandbox's own.
	Volumes  []string
	Commands []spec.SetUp
}

// User returns the user of commands; empty: the image's user.
func (s *Settings) User() string {
	if s.RemoteUser != "" {
		return s.RemoteUser
	}
	return s.ContainerUser
}

// Build is a Dockerfile. Paths are relative to the directory of the file, and unchanged.
type Build struct {
	Dockerfile, Context, Target string
	Args                        map[string]string
}

// Variable is an environment variable.
type Variable struct{ Name, Value string }

// Use is a feature to install.
type Use struct {
	ID      string // as in the file
	Options map[string]string
}

// Parse reads a devcontainer.json.
func Parse(text []byte, p Place) (*File, error) {
	f := &File{}
	x := &expander{place: p}
	unknown, err := read(text, x, f.key)
	if err == nil {
		err = f.settle()
	}
	if err != nil {
		return nil, &spec.Error{Class: spec.ErrUsage, Op: p.File, Err: err, Hint: spec.Hint(err)}
	}
	f.Notes = append(f.Notes, x.notes()...)
	if len(unknown) > 0 {
		f.Notes = append(f.Notes, notKnown(unknown))
	}
	return f, nil
}

// read calls take for each key of an object. It returns the keys that take does not know.
func read(text []byte, x *expander, take func(string, json.RawMessage) (bool, error)) (unknown []string, err error) {
	raw, err := parse(text, x.expand)
	if err == nil {
		err = x.err
	}
	if err != nil {
		return nil, err
	}
	return each(raw, take)
}

// each is read for a value that is already expanded.
func each(raw json.RawMessage, take func(string, json.RawMessage) (bool, error)) (unknown []string, err error) {
	err = eachMember(raw, func(name string, raw json.RawMessage) error {
		if string(raw) == "null" {
			return nil
		}
		known, err := take(name, raw)
		if err == nil && !known && !slices.Contains(silent, name) {
			unknown = append(unknown, name)
		}
		return err
	})
	return unknown, err
}

// silent are ignored keys that need no note: they are for editors, or ask for something that is always
// true.
var silent = []string{
	"$schema", "name", "customizations", "portsAttributes", "otherPortsAttributes", "shutdownAction",
	"overrideCommand", "init", "waitFor", "userEnvProbe", "updateRemoteUserUID", "settings", "extensions", "devPort",
}

// leftOut says why a key is ignored; empty: the key asks for nothing.
func leftOut(key string) string {
	switch key {
	case "initializeCommand":
		return "it would run on this host, where nothing of this file ever runs"
	case "runArgs":
		return "there is no docker run; what a sandbox may use is said by --cpus, --memory and the like"
	case "privileged", "capAdd", "securityOpt":
		return "nothing makes the wall thinner; root inside has what a sandbox can give"
	case "entrypoint":
		return "the first process is Bothy's"
	case "workspaceMount", "workspaceFolder":
		return "your project is at the path that it has on this host"
	case "hostRequirements":
		return "what a sandbox may use is said by --cpus, --memory and --disk"
	case "secrets":
		return "lend it what it needs: --secret NAME"
	}
	return ""
}

// key reads one key of a devcontainer.json.
func (f *File) key(name string, raw json.RawMessage) (known bool, err error) {
	switch name {
	case "image":
		f.Image, err = line(raw)
	case "build":
		err = f.build(raw)
	case "dockerFile":
		f.dockerfile().Dockerfile, err = line(raw)
	case "context":
		f.dockerfile().Context, err = line(raw)
	case "features":
		f.Features, err = uses(raw)
	case "overrideFeatureInstallOrder":
		f.Order, err = texts(raw)
	case "forwardPorts", "appPort":
		err = f.ports(raw)
	case "dockerComposeFile":
		err = spec.Errorf(spec.ErrUsage, "a sandbox is one machine; several containers are not made into one").
			WithHint("write a devcontainer.json with an image or a Dockerfile beside it, and name that: -t PATH/devcontainer.json; run the services inside")
	default:
		return f.setting(name, raw)
	}
	return true, err
}

// setting reads a key that features and images may also have.
func (f *File) setting(name string, raw json.RawMessage) (known bool, err error) {
	switch name {
	case "containerEnv":
		f.ContainerEnv, err = f.variables(name, raw)
	case "remoteEnv":
		f.RemoteEnv, err = f.variables(name, raw)
	case "containerUser":
		f.ContainerUser, err = user(raw)
	case "remoteUser":
		f.RemoteUser, err = user(raw)
	case "mounts":
		err = f.mounts(raw)
	case spec.OnCreate, spec.UpdateContent, spec.PostCreate, spec.PostStart, spec.PostAttach:
		var list []spec.SetUp
		list, err = commands(name, raw)
		f.Commands = append(f.Commands, list...)
	default:
		why := leftOut(name)
		if why != "" && says(raw) {
			f.note(name, why)
		}
		return why != "", nil
	}
	return true, err
}

func (f *File) note(key, what string) { f.Notes = append(f.Notes, key+": "+what) }

// dockerfile returns the build, for files in the older form.
func (f *File) dockerfile() *Build {
	if f.Build == nil {
		f.Build = &Build{}
	}
	return f.Build
}

func (f *File) build(raw json.RawMessage) error {
	b := f.dockerfile()
	return eachMember(raw, func(name string, raw json.RawMessage) (err error) {
		switch name {
		case "dockerfile":
			b.Dockerfile, err = line(raw)
		case "context":
			b.Context, err = line(raw)
		case "target":
			b.Target, err = line(raw)
		case "args":
			b.Args, err = pairs(raw, text)
		case "cacheFrom":
			f.note("build.cacheFrom", "Bothy keeps what steps made by itself")
		case "options":
			f.note("build.options", "there is no docker build; bothy template build has flags of its own")
		default:
			f.note("build."+told(name), "not known, and without effect")
		}
		return err
	})
}

// pairs reads an object whose values read accepts.
func pairs(raw json.RawMessage, read func(json.RawMessage) (string, error)) (map[string]string, error) {
	m := map[string]string{}
	err := eachMember(raw, func(name string, raw json.RawMessage) (err error) {
		m[name], err = read(raw)
		return err
	})
	return m, err
}

// variables reads environment variables.
func (f *File) variables(key string, raw json.RawMessage) (vars []Variable, err error) {
	list, err := members(raw)
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		if !isVariable(m.name) {
			return nil, spec.Errorf(spec.ErrUsage, "%q is no name of a variable", m.name)
		}
		if string(m.raw) == "null" {
			f.note(key, told(m.name)+" is not taken away: it has what the image says")
			continue
		}
		v, err := text(m.raw)
		if err != nil {
			return nil, &spec.Error{Op: m.name, Err: err}
		}
		vars = append(vars, Variable{m.name, v})
	}
	return vars, nil
}

func isVariable(name string) bool {
	for i, r := range name {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// user reads a name or a number, with or without a group.
func user(raw json.RawMessage) (string, error) {
	s, err := text(raw)
	if err == nil {
		err = checkUser(s)
	}
	return s, err
}

// checkUser accepts a user that a Dockerfile can hold unchanged. Empty means no particular user.
func checkUser(s string) error {
	for i, r := range s {
		plain := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !plain && (i == 0 || !strings.ContainsRune(".-@:", r)) {
			return spec.Errorf(spec.ErrUsage, "%.100q is no user", s)
		}
	}
	return nil
}

// ports only reports ports: the host's user decides which ports to open.
func (f *File) ports(raw json.RawMessage) error {
	list := []json.RawMessage{raw}
	if kind(raw) == '[' {
		var err error
		if list, err = elements(raw); err != nil {
			return err
		}
	}
	for _, p := range list {
		s := string(p)
		if kind(p) == '"' {
			s, _ = text(p)
		}
		if i := strings.LastIndexByte(s, ':'); i >= 0 { // HOST:PORT of a neighbouring container
			s = s[i+1:]
		}
		port, err := spec.ParsePort(s)
		if err != nil {
			return wants("a port, or a list of ports")
		}
		if flag := fmt.Sprintf("-p %d:%d", port.Port, port.Port); !slices.Contains(f.forward, flag) {
			f.forward = append(f.forward, flag)
		}
	}
	return nil
}

// settle checks the keys against each other.
func (f *File) settle() error {
	switch {
	case f.Build != nil && f.Image != "":
		return spec.Errorf(spec.ErrUsage, "it names an image and a Dockerfile")
	case f.Build != nil && f.Build.Dockerfile == "":
		return spec.Errorf(spec.ErrUsage, "its build names no dockerfile")
	case f.Build == nil && f.Image == "":
		return spec.Errorf(spec.ErrUsage, "it names neither an image nor a Dockerfile").
			WithHint(`write "image": "NAME:TAG", or "build": {"dockerfile": "Dockerfile"}`)
	}
	if f.ContainerUser != "" && f.RemoteUser != "" && f.ContainerUser != f.RemoteUser {
		f.note("containerUser", "all commands run as the remoteUser, "+f.RemoteUser)
	}
	if len(f.forward) > 0 {
		f.note("forwardPorts", "no file opens ports of this host; to have them: "+listed(f.forward, ""))
	}
	return nil
}
