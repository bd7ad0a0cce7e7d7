package agent

import (
	"bytes"
	"embed"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Shell is the name for running without an agent: the user's own shell, or a program.
const Shell = "shell"

// Ralph is the command that runs a default agent. The descriptions say which agent that is.
const Ralph = "ralph"

// builtin has our descriptions. They are written in YAML and read as the equivalent JSON: reading YAML
// takes milliseconds, and every run reads one. A test compares the two, and with -update writes the
// JSON.
//
//go:generate go test -run ^TestBuiltinJSON$ -update
//go:embed agents/*.yaml agents/*.json
var builtin embed.FS

const (
	ext     = ".yaml"
	extJSON = ".json"
	maxSize = 256 << 10
)

// Catalog has all agents: those that come with Bothy, and those in a directory of the user, one file
// NAME.yaml for each. The user's have precedence.
type Catalog struct {
	dir  string
	read *sync.Map // of readings by name; nil for no cache
}

// NewCatalog reads the user's descriptions from a directory, which need not exist. With an empty dir the
// user has none.
func NewCatalog(dir string) Catalog { return Catalog{dir, &sync.Map{}} }

// reading is a decoded description with its text.
type reading struct {
	text  []byte
	agent *spec.Agent
}

// findCached returns the cached result for the same text; nil if there was none. A command asks for the same
// description several times, and decoding it takes milliseconds.
func (c Catalog) findCached(d document) *spec.Agent {
	if c.read == nil {
		return nil
	}
	if was, ok := c.read.Load(d.name); ok && bytes.Equal(was.(reading).text, d.data) {
		same := *was.(reading).agent
		return &same
	}
	return nil
}

// Names lists the agents, without the shell.
func (c Catalog) Names() ([]string, error) {
	ours, err := builtin.ReadDir("agents")
	if err != nil { // they are in the binary
		return nil, err
	}
	own, err := c.ownNames()
	if err != nil {
		return nil, err
	}
	names := append(described(ours), own...)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// CheckName checks the name of an agent: it names a file, the directory of its
// installations, and a part of the sandbox's name.
func CheckName(name string) error {
	ok := name != "" && len(name) <= 32 && name != Shell
	for i, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' && i > 0)
	}
	if !ok {
		return spec.Errorf(spec.ErrUsage, "%q is not a name for an agent", name).WithHint("use lower-case letters, digits and '-'")
	}
	return nil
}

// Called is [Catalog.Find] for an agent to run: it rejects a runtime, on which only other agents run.
func (c Catalog) Called(name string) (*spec.Agent, error) {
	a, err := c.Find(name)
	if of, ok := isAdapter(name); ok && err == nil {
		return nil, spec.Errorf(spec.ErrUsage, "%s is an adapter, not an agent", a.Title).WithHint("an editor runs it by: bothy acp %s", of)
	}
	if err == nil && a.Runtime {
		err = spec.Errorf(spec.ErrUsage, "%s is a runtime, not an agent", a.Title).
			WithHint("to run it by itself: bothy run shell . -- %s", a.Program)
	}
	return a, err
}

// Find returns the description of an agent, by its name or an alias. For an unknown name
// the error is of class [spec.ErrNotFound].
func (c Catalog) Find(name string) (*spec.Agent, error) {
	if name == Shell { // every start and fork asks for it, and the rest reads all descriptions
		return nil, spec.Errorf(spec.ErrNotFound, "%q is your own shell, not an agent", name).WithHint("bothy run %s . needs no agent; the others: bothy agent ls", name)
	}
	if of, ok := isAdapter(name); ok {
		a, err := c.Find(of)
		if err == nil && Adapter(a) == nil {
			err = spec.Errorf(spec.ErrNotFound, "%s has no adapter for editors", a.Title)
		}
		return Adapter(a), err
	}
	if CheckName(name) == nil {
		a, err := c.describe(name)
		if !errors.Is(err, fs.ErrNotExist) {
			return a, err
		}
	}
	names, err := c.Names()
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		d, err := c.open(n)
		if err != nil || d.ours && !bytes.Contains(d.data, []byte(name)) {
			continue // ours write their aliases plainly; decoding all takes milliseconds
		}
		if a, err := c.decode(d); err == nil && slices.Contains(a.Aliases, name) {
			return a, nil
		}
	}
	names = slices.DeleteFunc(names, c.isRuntime)
	return nil, spec.Errorf(spec.ErrNotFound, "no agent named %q", name).
		WithHint("%sthere are: %s, %s", c.misnamed(name), strings.Join(names, ", "), Shell)
}

// In returns the agent that a sandbox was made for. It is nil for the shell, and for a program of the
// user's own. If the description of the agent is gone, In returns an error of class [spec.ErrConflict]:
// a command that took the agent for a program would pass its prompt to a shell.
func (c Catalog) In(sb *spec.Sandbox) (*spec.Agent, error) {
	if sb.Agent == Shell || len(sb.Command) > 0 {
		return nil, nil
	}
	a, err := c.Find(sb.Agent)
	if errors.Is(err, spec.ErrNotFound) {
		return nil, spec.Errorf(spec.ErrConflict, "sandbox %s is one of the agent %s, whose description is gone", sb.Name, sb.Agent).
			WithHint("put %s.yaml back where it was (docs/guide/own-agent.md)", sb.Agent)
	}
	return a, err
}

// misnamed explains why a file that seems to match a name does not count. It is "" if no file matches.
func (c Catalog) misnamed(name string) string {
	files, _ := c.Ignored()
	for _, f := range files {
		if base := filepath.Base(f); strings.EqualFold(strings.TrimSuffix(base, filepath.Ext(base)), name) {
			return WhyIgnored(f) + "; "
		}
	}
	return ""
}

// WhyIgnored tells how to rename a file of [Catalog.Ignored].
func WhyIgnored(file string) string {
	return file + " is not read: a description is called NAME" + ext + ", and NAME has lower-case letters, digits and '-', and is not " + Shell
}

// Default returns the agent that a command uses when none is named. The user's descriptions
// come before ours. If none or several match, the error is of class [spec.ErrUsage].
func (c Catalog) Default(command string) (*spec.Agent, error) {
	names, err := c.Names()
	if err != nil {
		return nil, err
	}
	var own, ours []*spec.Agent
	for _, name := range names {
		d, err := c.open(name)
		replaced, _ := builtin.ReadFile(path.Join("agents", name+ext)) // the description it inherits from
		if err != nil || !bytes.Contains(d.data, []byte(command)) && !bytes.Contains(replaced, []byte(command)) {
			continue
		}
		a, err := c.decode(d)
		if err != nil {
			return nil, err
		}
		switch {
		case !slices.Contains(a.Default, command):
		case d.ours:
			ours = append(ours, a)
		default:
			own = append(own, a)
		}
	}
	if len(own) > 0 {
		ours = own
	}
	if len(ours) != 1 {
		return nil, spec.Errorf(spec.ErrUsage, "--agent is missing: %d descriptions say that theirs is the default of %s, not one", len(ours), command)
	}
	return ours[0], nil
}

// isRuntime reports whether a description is of a runtime for other agents.
func (c Catalog) isRuntime(name string) bool {
	d, err := c.open(name)
	if err != nil || !bytes.Contains(d.data, []byte("runtime:")) {
		return false // decoding all takes milliseconds
	}
	a, err := c.decode(d)
	return err == nil && a.Runtime
}

// Text returns the text of a description, and the user's file that contains it. The file is
// empty for a description that comes with Bothy.
func (c Catalog) Text(name string) (text []byte, file string, err error) {
	d, err := c.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", spec.Errorf(spec.ErrNotFound, "no agent named %q", name)
	}
	if !d.ours {
		file = d.from
	}
	return d.data, file, err
}

func (c Catalog) describe(name string) (*spec.Agent, error) {
	d, err := c.open(name)
	if err != nil {
		return nil, err
	}
	return c.decode(d)
}

// document is the text of a description.
type document struct {
	name string // of the agent it should describe
	from string // for messages
	data []byte
	ours bool
}

// open finds one description: the user's before ours.
func (c Catalog) open(name string) (document, error) {
	if err := CheckName(name); err != nil {
		return document{name: name}, err
	}
	if c.dir != "" {
		file := filepath.Join(c.dir, name+ext)
		data, err := readFile(file)
		if !errors.Is(err, fs.ErrNotExist) {
			return document{name: name, from: file, data: data}, err
		}
	}
	data, err := builtin.ReadFile(path.Join("agents", name+ext))
	return document{name: name, from: "agent " + name, data: data, ours: true}, err
}

func readFile(name string) ([]byte, error) {
	f, err := store.OpenRegular(name, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(data) > maxSize {
		err = spec.Errorf(spec.ErrUsage, "%s is larger than %d KiB", name, maxSize>>10)
	}
	return data, err
}

// decode decodes a description. Ours are known to be valid: a test checks them.
func (c Catalog) decode(d document) (*spec.Agent, error) {
	if a := c.findCached(d); a != nil {
		return a, nil
	}
	a, err := d.parse()
	if err == nil && !d.ours {
		c.inherit(a)
		err = checkAgent(a)
	}
	if err == nil && a.Name != d.name {
		err = spec.Errorf(spec.ErrUsage, "it describes %q: name the file %s%s", a.Name, a.Name, ext)
	}
	if err != nil {
		// The cause may be something that is not found, such as a preset. The agent itself
		// exists, so the error must not be of class ErrNotFound.
		return nil, &spec.Error{Class: spec.ErrUsage, Op: d.from, Err: errors.New(err.Error()), Hint: spec.Hint(err)}
	}
	if c.read != nil {
		same := *a
		c.read.Store(d.name, reading{d.data, &same})
	}
	return a, nil
}

// inherit completes a user's description that replaces ours: if it does not list the commands for which
// it is the default, it inherits our list. [] means none.
func (c Catalog) inherit(a *spec.Agent) {
	if a.Default != nil || CheckName(a.Name) != nil {
		return
	}
	if ours, err := parseOurs(a.Name); err == nil && !a.Runtime { // otherwise we have none of that name
		a.Default = ours.Default
	}
}
