// Package build holds the words in which bothy and bothy-build speak with each other.
//
// bothy-build understands Dockerfiles: on the host it makes a plan of one, and a
// snapshot of the files it uses; inside a sandbox it carries a step of it out. Bothy
// decides which steps are to be carried out, and in which sandboxes. It is a program of
// its own as it links BuildKit's frontend, which commands of a person need not wait for.
package build

import (
	"strings"

	"github.com/bothy-dev/bothy/internal/program"
)

// Program is the name of the program.
const Program = program.Build

// Argv0 is the name under which it makes plans: an order comes in, the plan goes out
// (see package helper).
const Argv0 = "bothy-build-plan"

// Order asks for a plan.
type Order struct {
	Dockerfile string            `json:"dockerfile"`       // its name, as errors have it
	Text       []byte            `json:"text"`             // what it says
	Context    string            `json:"context"`          // the directory that COPY copies from
	Within     string            `json:"within,omitempty"` // a directory in it, which is meant instead; no link leads out of Context
	Ignore     string            `json:"ignore,omitempty"` // what is left out of that, as .dockerignore has it
	Args       map[string]string `json:"args,omitempty"`
	Target     string            `json:"target,omitempty"`
	Arch       string            `json:"arch"`
	// Images are those that are known by now, by the reference in full.
	Images map[string]Image `json:"images,omitempty"`
	// Snapshot is an empty directory for the files of the context.
	Snapshot string `json:"snapshot"`
}

// Image is what a plan must know of one.
type Image struct {
	Digest string `json:"digest"`
	Config []byte `json:"config"` // as the image has it
}

// Plan says what is to be done.
type Plan struct {
	// Need are images that are not known yet. Then there is nothing else, and another
	// order has to be given.
	Need []string `json:"need,omitempty"`
	// Vertices are the steps; a step comes behind those it needs.
	Vertices []Vertex `json:"vertices,omitempty"`
	Result   int      `json:"result"` // the vertex whose root is the image; [None] for an empty one
	Config   []byte   `json:"config,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Unused   []string `json:"unused,omitempty"` // arguments that no ARG takes
	// Context says that the snapshot was made.
	Context bool `json:"context,omitempty"`
}

// None stands in the place of a vertex for an empty root.
const None = -1

// Kind is what a vertex is.
type Kind string

// Kinds of a vertex.
const (
	FromImage Kind = "image"   // the root of an image
	Context   Kind = "context" // the snapshot; it is only copied from
	Run       Kind = "run"     // a command
	Files     Kind = "files"   // files are copied, made or removed
)

// Vertex is one step. Its root is that of Base with what it changes.
type Vertex struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"` // for people
	Line int    `json:"line,omitempty"`
	// Image is the digest of one, of a vertex of that kind.
	Image string `json:"image,omitempty"`
	// Op is what is to be done, for bothy-build, without what it is done to.
	Op      []byte   `json:"op,omitempty"`
	Base    int      `json:"base"`
	Sources []Source `json:"sources,omitempty"`
	// Content tells what of the context is used, by its digest.
	Content string   `json:"content,omitempty"`
	Caches  []Cache  `json:"caches,omitempty"`
	Secrets []Secret `json:"secrets,omitempty"`
}

// Source is a vertex that a step reads from beside its own root.
type Source struct {
	Input  int `json:"input"` // under which the operation knows it
	Vertex int `json:"vertex"`
}

// Cache is a directory that outlives builds.
type Cache struct {
	// ID is a digest of the build's directory, a slash, and the name that the Dockerfile
	// gives it.
	ID      string `json:"id"`
	Mount   int    `json:"mount"` // under which the operation knows it
	Private bool   `json:"private,omitempty"`
	Source  int    `json:"source"` // input that a new one begins with; [None] for none
}

// Called is what people call it: as the Dockerfile has it.
func (c Cache) Called() string {
	_, name, _ := strings.Cut(c.ID, "/")
	return name
}

// Secret is one that a step may read.
type Secret struct {
	ID       string `json:"id"`
	Optional bool   `json:"optional,omitempty"`
}

// Inside a sandbox.
const (
	// Dir is where bothy-build and the snapshot are mounted.
	Dir         = "/.bothy/build"
	ProgramPath = Dir + "/" + Program
	ContextPath = Dir + "/context"
	// Stage is a directory of the root for what a step reads from elsewhere. It is
	// gone before the root is saved.
	Stage = "/.bothy-stage"
)

// Roles that bothy-build plays inside: its first argument.
const (
	RoleReceive = "receive" // an archive becomes a directory below Stage
	RoleSend    = "send"    // what an operation reads from an input becomes an archive
	RoleStore   = "store"   // a directory below Stage becomes an archive
	RoleDo      = "do"      // an operation is carried out
	RoleClean   = "clean"   // what lies below Stage is removed
	RoleEnter   = "enter"   // a command begins, within mounts of its own
)

// Step is what comes on standard input inside, as one line, before anything else.
type Step struct {
	Op    []byte `json:"op,omitempty"`
	Input int    `json:"input,omitempty"`
	// Placed are the files of /etc that are Bothy's, by their names in it. An operation does
	// not read them: they are not the image's.
	Placed []string `json:"placed,omitempty"`
	// Name is that of a directory below Stage: what is received becomes, what is stored
	// is, and what an operation changes instead of the root.
	Name string `json:"name,omitempty"`
	// Roots are the directories in which the operation finds its inputs.
	Roots map[int]string `json:"roots,omitempty"`
	// Caches are the directories below Stage of the caches, by the mount.
	Caches  map[int]string    `json:"caches,omitempty"`
	Secrets map[string][]byte `json:"secrets,omitempty"`
}

// Outcome is what RoleDo says in the end, on standard output.
type Outcome struct {
	Exit  int    `json:"exit"`            // of the command
	Error string `json:"error,omitempty"` // why the step was not carried out
}
