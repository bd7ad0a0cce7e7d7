package flowplan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Plan is a user's request for a flow.
type Plan struct {
	Flow  *Flow  `json:"flow"`
	File  string `json:"file"`            // the flow's file, at its beginning
	Agent string `json:"agent,omitempty"` // for steps without one
	// Called maps the names that steps use for agents to their real names.
	Called map[string]string `json:"called,omitempty"`
	// Values are the text inputs. Files are the given file inputs, by their names below inputs/.
	Values map[string]string `json:"values"`
	Files  []string          `json:"files"`

	Directory string `json:"directory,omitempty"` // the host directory to work on
	// Sandboxes are the IDs of the sandboxes, by the names of their rooms: the agents that work in them,
	// or the steps that work in copies; Shell is that of commands. The IDs were chosen before the
	// sandboxes were made.
	Sandboxes map[string]string `json:"sandboxes"`
	// Remove says to remove the sandboxes at the end of the flow.
	Remove bool `json:"remove,omitempty"`
	// Parallel is how many steps run side by side; zero: the flow says so.
	Parallel int    `json:"parallel,omitempty"`
	Limits   Limits `json:"limits"`
	// Lists are the lists of groups, by the groups' IDs. They are read from the inputs when the flow
	// begins, and never again.
	Lists map[string]List `json:"lists,omitempty"`

	// Drafts says that the output will be a flow: see Builder.
	Drafts bool `json:"drafts,omitempty"`
	// DraftTo is the file on the host that a finished draft is written to.
	DraftTo string `json:"draft_to,omitempty"`
}

// Shell is the name of the commands' sandbox, among those of agents.
const Shell = "shell"

// Limits bound a flow. Zero is unlimited.
type Limits struct {
	Time   spec.Duration `json:"time,omitempty"`   // while a process carries it on
	Tokens int64         `json:"tokens,omitempty"` // by the gateway's count, or the agents' if that is more
	USD    float64       `json:"usd,omitempty"`    // likewise
}

// Check refuses invalid limits.
func (l Limits) Check() error {
	if l.Time < 0 {
		return spec.Errorf(spec.ErrUsage, "%s %s is negative", spec.Option("max-time"), time.Duration(l.Time))
	}
	return spec.Budget{Tokens: l.Tokens, USD: l.USD}.Check()
}

// Raise applies the limits that a person has changed.
func (p *Plan) Raise(l *run.Limits) {
	if l != nil {
		l.Set(&p.Limits.Time, &p.Limits.Tokens, &p.Limits.USD)
	}
}

// Budget returns the limits of model usage for the whole flow.
func (p *Plan) Budget() spec.Budget { return spec.Budget{Tokens: p.Limits.Tokens, USD: p.Limits.USD} }

// Check refuses a plan that could not be carried on, and fills in the defaults. given are the files, by
// their names below inputs/.
func (p *Plan) Check(given map[string][]byte) error {
	if err := p.Limits.Check(); err != nil {
		return err
	}
	for name, value := range p.Values {
		if in := p.Flow.Input(name); in == nil || in.File != "" {
			return spec.Errorf(spec.ErrUsage, "the flow %s has no input %s that is a text", p.Flow.Name, name).WithHint("it has %s", p.Flow.inputNames())
		}
		if len(value) > MaxValue {
			return spec.Errorf(spec.ErrUsage, "the input %s has more than %d KiB", name, MaxValue>>10).WithHint("give it as a file")
		}
	}
	for _, file := range p.Files {
		if p.Flow.fileInput(file) == nil {
			return spec.Errorf(spec.ErrUsage, "the flow %s has no input that is the file %s", p.Flow.Name, file).WithHint("it has %s", p.Flow.inputNames())
		}
	}
	for _, in := range p.Flow.Inputs {
		value, given := p.Values[in.Name]
		if given && in.Required && strings.TrimSpace(value) == "" {
			return spec.Errorf(spec.ErrUsage, "the input %s is empty", in.Name)
		}
		given = given || in.File != "" && slices.Contains(p.Files, in.File)
		if given || in.File != "" && !in.Required {
			continue
		}
		if in.Required && in.Default == nil {
			how := "--input " + in.Name + "=VALUE"
			if in.File != "" {
				how = "--file " + in.Name + "=PATH"
			}
			return spec.Errorf(spec.ErrUsage, "the input %s is missing", in.Name).WithHint("%s", strings.TrimSuffix(how+": "+in.Description, ": "))
		}
		if in.Default != nil {
			p.Values[in.Name] = string(*in.Default)
		} else {
			p.Values[in.Name] = ""
		}
	}
	if err := p.checkMatrix(); err != nil {
		return err
	}
	if err := p.readLists(given); err != nil {
		return err
	}
	for _, n := range p.Nodes() {
		if n.Step.Prompt != "" && !p.Never(n) && p.AgentOf(n) == "" {
			return spec.Errorf(spec.ErrUsage, "nothing says which agent does the step %s", n.Step.ID).WithHint("bothy flow run --agent NAME, or agent: NAME in the flow")
		}
	}
	return p.checkCount() // conflicts with the agents' names are checked by Name
}

func (f *Flow) inputNames() string {
	var list []string
	for _, in := range f.Inputs {
		if in.File != "" {
			list = append(list, in.Name+" (the file "+in.File+")")
			continue
		}
		list = append(list, in.Name)
	}
	if list == nil {
		return "no inputs"
	}
	return strings.Join(list, ", ")
}

// FileInput returns the name below inputs/ of an input that is a file. An empty name means the
// only one.
func (f *Flow) FileInput(name string) (string, error) {
	var files []string
	for _, in := range f.Inputs {
		if in.File != "" && (name == "" || name == in.Name || name == in.File) {
			files = append(files, in.File)
		}
	}
	switch {
	case len(files) == 1:
		return files[0], nil
	case name != "":
		return "", spec.Errorf(spec.ErrUsage, "the flow %s has no input %s that is a file", f.Name, name).WithHint("it has %s", f.inputNames())
	}
	return "", spec.Errorf(spec.ErrUsage, "the flow %s has %d inputs that are files", f.Name, len(files)).WithHint("say which it is: %s NAME=PATH; it has %s", spec.Option("file"), f.inputNames())
}

// Name replaces the agents' names in the flow by their real ones. An agent with two names is one
// agent, with one sandbox. It refuses names that conflict with a step's.
func (p *Plan) Name(called map[string]string) error {
	p.Agent = cmp.Or(called[p.Agent], p.Agent)
	p.Called = called
	return p.checkParallel()
}

// AgentOf returns the agent that does a step, or Shell.
func (p *Plan) AgentOf(n *Node) string {
	who := p.agentName(n)
	return cmp.Or(p.Called[who], who)
}

// agentName returns the flow's name for the agent of a step.
func (p *Plan) agentName(n *Node) string {
	if n.Step.Command != "" {
		return Shell
	}
	return cmp.Or(p.chosen(n, n.Step.Agent), p.Agent, p.Flow.Agent)
}

// chosen is varied for a single word: if several words are substituted, the first one that is not empty.
func (p *Plan) chosen(n *Node, text string) string {
	if !strings.Contains(text, "}} ${{") {
		return p.varied(n, text)
	}
	word, _, _ := strings.Cut(strings.TrimSpace(p.varied(n, text)), " ")
	return word
}

// varied replaces the words of a text by inputs, and by the values that vary between the times of a
// step.
func (p *Plan) varied(n *Node, text string) string {
	text, _ = Expand(text, func(w Word) (string, error) { // it was checked
		if w.Kind == WordInput {
			return strings.TrimSpace(p.Values[w.Name]), nil
		}
		return n.Values()[w], nil
	})
	return text
}

// ModelOf returns the model for a prompt; empty if it is the agent's choice.
func (p *Plan) ModelOf(n *Node) string { return p.chosen(n, n.Step.Model) }

// Room is a sandbox in which steps run.
type Room struct {
	Name  string // its key in Plan.Sandboxes: the agent's name, or that of the step that works in a copy
	Agent string // or Shell
	Copy  bool   // it has a copy of the directory, and is for one step
}

// RoomOf returns the name of the sandbox in which a node runs; empty if the node has one of its own.
func (p *Plan) RoomOf(n *Node) string {
	switch {
	case n.Step.Of != "":
		return ""
	case n.Step.Copy:
		return n.ID
	}
	return p.AgentOf(n)
}

// Rooms returns all sandboxes that a flow needs, in the order of their names.
func (p *Plan) Rooms() []Room {
	all := map[string]Room{}
	for name, count := range p.Pools() {
		for _, room := range RoomsOf(name, count) {
			all[room] = Room{Name: room, Agent: name}
		}
	}
	for _, room := range p.copyRooms() {
		all[room.Name] = room
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Room) int { return strings.Compare(a.Name, b.Name) })
}

// RoomsOf returns the rooms of an agent, or of commands, by their number.
func RoomsOf(name string, count int) []string {
	list := []string{name}
	for i := 2; i <= count; i++ {
		list = append(list, name+"."+strconv.Itoa(i))
	}
	return list
}

// copyRooms returns the rooms that have a copy of the directory.
func (p *Plan) copyRooms() (list []Room) {
	for _, n := range p.Nodes() {
		if n.Step.Copy {
			list = append(list, Room{Name: n.ID, Agent: p.AgentOf(n), Copy: true})
		}
	}
	return list
}

// Copies returns the names of the rooms with work that waits for a person.
func (p *Plan) Copies() (names []string) {
	for _, r := range p.copyRooms() {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

// Fresh reports whether any step runs in new sandboxes.
func (p *Plan) Fresh() bool {
	return slices.ContainsFunc(p.Nodes(), func(n *Node) bool { return n.Step.Fresh })
}

// Sources returns the input files that a node gets, and those of all nodes whose outputs it gets.
func (p *Plan) Sources(n *Node, all []*Node) (files, nodes []string) {
	given := n.Step.Inputs
	if n.Step.Of != "" {
		return nil, nil
	}
	if given == nil {
		files = slices.Sorted(slices.Values(p.Files))
		return files, n.Needs
	}
	var steps []string
	for _, in := range *given {
		src, err := p.Flow.source(n.Step, in, func(string) error { return nil })
		switch {
		case err != nil: // it was checked
		case src.file != "":
			if slices.Contains(p.Files, src.file) && !slices.Contains(files, src.file) {
				files = append(files, src.file)
			}
		default:
			steps = append(steps, src.step)
		}
	}
	for _, other := range all {
		if slices.Contains(steps, other.Step.ID) && n.Sees(other) {
			nodes = append(nodes, other.ID)
		}
	}
	return files, nodes
}

// Definition hashes the task of a node, without its inputs.
func (p *Plan) Definition(n *Node) string {
	return Digest(struct {
		Step    *Step
		Matrix  map[string]string
		Values  map[string]string
		Agent   string
		Element *Element `json:",omitempty"`
	}{n.Step, n.Matrix, p.Values, p.AgentOf(n), n.Element})
}

// Digest hashes a value by its JSON, in which maps are sorted.
func Digest(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("hash %T: %v", v, err)) // only data that came from JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func HashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
