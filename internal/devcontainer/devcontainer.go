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
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// MaxSize bounds a devcontainer.json, and the metadata of a feature or an image, in bytes.
const MaxSize = 128 << 10

const (
	maxCommands = 100     // of one kind, in one description
	maxFeatures = 50      // of a file
	maxEntries  = 200     // of an image's metadata
	maxExpanded = 1 << 20 // bytes that variables add to a description
)

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
	return cmp.Or(s.RemoteUser, s.ContainerUser)
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
	unknown, err := readObject(text, x, f.readKey)
	if err == nil {
		err = f.settle()
	}
	if err != nil {
		return nil, &spec.Error{Class: spec.ErrUsage, Op: p.File, Err: err, Hint: spec.Hint(err)}
	}
	f.Notes = append(f.Notes, x.listNotes()...)
	if len(unknown) > 0 {
		f.Notes = append(f.Notes, notKnown(unknown))
	}
	return f, nil
}

// readObject calls take for each key of an object. It returns the keys that take does not know.
func readObject(text []byte, x *expander, take func(string, json.RawMessage) (bool, error)) (unknown []string, err error) {
	raw, err := parse(text, x.expand)
	if err == nil {
		err = x.err
	}
	if err != nil {
		return nil, err
	}
	return eachKey(raw, take)
}

// eachKey is readObject for a value that is already expanded.
func eachKey(raw json.RawMessage, take func(string, json.RawMessage) (bool, error)) (unknown []string, err error) {
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
		return "docker run is not used; --cpus, --memory and the like limit a sandbox"
	case "privileged", "capAdd", "securityOpt":
		return "nothing makes the wall thinner; root inside has what a sandbox can give"
	case "entrypoint":
		return "the first process is Bothy's"
	case "workspaceMount", "workspaceFolder":
		return "your project is at the path that it has on this host"
	case "hostRequirements":
		return "--cpus, --memory and --disk limit a sandbox"
	case "secrets":
		return "lend it each secret that it needs: --secret NAME"
	}
	return ""
}

func (f *File) readKey(name string, raw json.RawMessage) (known bool, err error) {
	switch name {
	case "image":
		f.Image, err = readLine(raw)
	case "build":
		err = f.readBuild(raw)
	case "dockerFile":
		f.dockerfile().Dockerfile, err = readLine(raw)
	case "context":
		f.dockerfile().Context, err = readLine(raw)
	case "features":
		f.Features, err = readUses(raw)
	case "overrideFeatureInstallOrder":
		f.Order, err = readTexts(raw)
	case "forwardPorts", "appPort":
		err = f.notePorts(raw)
	case "dockerComposeFile":
		err = spec.Errorf(spec.ErrUsage, "a sandbox is one machine; several containers are not made into one").
			WithHint("write a devcontainer.json with an image or a Dockerfile beside it, and name that: -t PATH/devcontainer.json; run the services inside")
	default:
		return f.readSetting(name, raw)
	}
	return true, err
}

// readSetting reads a key that features and images may also have.
func (f *File) readSetting(name string, raw json.RawMessage) (known bool, err error) {
	switch name {
	case "containerEnv":
		f.ContainerEnv, err = f.readVariables(name, raw)
	case "remoteEnv":
		f.RemoteEnv, err = f.readVariables(name, raw)
	case "containerUser":
		f.ContainerUser, err = readUser(raw)
	case "remoteUser":
		f.RemoteUser, err = readUser(raw)
	case "mounts":
		err = f.readMounts(raw)
	case spec.OnCreate, spec.UpdateContent, spec.PostCreate, spec.PostStart, spec.PostAttach:
		var list []spec.SetUp
		list, err = commands(name, raw)
		f.Commands = append(f.Commands, list...)
	default:
		why := leftOut(name)
		if why != "" && asksAnything(raw) {
			f.addNote(name, why)
		}
		return why != "", nil
	}
	return true, err
}

func (f *File) addNote(key, what string) { f.Notes = append(f.Notes, key+": "+what) }

// dockerfile returns the build, for files in the older form.
func (f *File) dockerfile() *Build {
	if f.Build == nil {
		f.Build = &Build{}
	}
	return f.Build
}

func (f *File) readBuild(raw json.RawMessage) error {
	b := f.dockerfile()
	return eachMember(raw, func(name string, raw json.RawMessage) (err error) {
		switch name {
		case "dockerfile":
			b.Dockerfile, err = readLine(raw)
		case "context":
			b.Context, err = readLine(raw)
		case "target":
			b.Target, err = readLine(raw)
		case "args":
			b.Args, err = readPairs(raw, readText)
		case "cacheFrom":
			f.addNote("build.cacheFrom", "Bothy keeps what steps made by itself")
		case "options":
			f.addNote("build.options", "docker build is not used; bothy template build has flags of its own")
		default:
			f.addNote("build."+shorten(name), "not known, and without effect")
		}
		return err
	})
}

// readPairs reads an object whose values read accepts.
func readPairs(raw json.RawMessage, read func(json.RawMessage) (string, error)) (map[string]string, error) {
	m := map[string]string{}
	err := eachMember(raw, func(name string, raw json.RawMessage) (err error) {
		m[name], err = read(raw)
		return err
	})
	return m, err
}

func (f *File) readVariables(key string, raw json.RawMessage) (vars []Variable, err error) {
	list, err := members(raw)
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		if !isVariable(m.name) {
			return nil, spec.Errorf(spec.ErrUsage, "%q cannot be the name of a variable", m.name)
		}
		if string(m.raw) == "null" {
			f.addNote(key, shorten(m.name)+" is not taken away: it has what the image says")
			continue
		}
		v, err := readText(m.raw)
		if err != nil {
			return nil, &spec.Error{Op: m.name, Err: err}
		}
		vars = append(vars, Variable{m.name, v})
	}
	return vars, nil
}

func isVariable(name string) bool {
	return name != "" && strings.Trim(name, letters+digits+"_") == "" && strings.Trim(name[:1], letters+"_") == ""
}

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

// readUser reads a name or a number, with or without a group.
func readUser(raw json.RawMessage) (string, error) {
	s, err := readText(raw)
	if err == nil {
		err = checkUser(s)
	}
	return s, err
}

// checkUser accepts a user that a Dockerfile can hold unchanged. Empty means no particular user.
func checkUser(s string) error {
	if strings.Trim(s, letters+digits+"_.-@:") != "" || s != "" && strings.Trim(s[:1], letters+digits+"_") != "" {
		return spec.Errorf(spec.ErrUsage, "%.100q cannot be a user", s)
	}
	return nil
}

// notePorts only reports ports: the host's user decides which ports to open.
func (f *File) notePorts(raw json.RawMessage) error {
	list := []json.RawMessage{raw}
	if kindOf(raw) == '[' {
		var err error
		if list, err = elements(raw); err != nil {
			return err
		}
	}
	for _, p := range list {
		s := string(p)
		if kindOf(p) == '"' {
			s, _ = readText(p)
		}
		if i := strings.LastIndexByte(s, ':'); i >= 0 { // HOST:PORT of a neighbouring container
			s = s[i+1:]
		}
		port, err := spec.ParsePort(s)
		if err != nil {
			return errWants("a port, or a list of ports")
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
		f.addNote("containerUser", "all commands run as the remoteUser, "+f.RemoteUser)
	}
	if len(f.forward) > 0 {
		f.addNote("forwardPorts", "no file opens ports of this host; to have them: "+listed(f.forward, ""))
	}
	return nil
}

// Bounds of the notes of one kind, and of a quoted word of a file, in characters.
const (
	maxTold = 20
	maxWord = 200
)

// shorten shortens a word of a file to one short line, for a note.
func shorten(word string) string {
	if oneLine(word) != nil {
		word = strings.Trim(strconv.Quote(word), `"`)
	}
	n := 0
	for i := range word {
		if n++; n > maxWord {
			return word[:i] + "…"
		}
	}
	return word
}

func notKnown(keys []string) string {
	list := make([]string, len(keys))
	for i, key := range keys {
		list[i] = shorten(key)
	}
	return "not known, and without effect: " + listed(list, ",")
}

// listed joins words with a mark and blanks, and counts those beyond maxTold.
func listed(words []string, mark string) string {
	text := strings.Join(words[:min(len(words), maxTold)], mark+" ")
	if more := len(words) - maxTold; more > 0 {
		text += fmt.Sprintf("%s and %d more", mark, more)
	}
	return text
}
