// Package build holds the types that bothy and bothy-build exchange.
//
// bothy-build understands Dockerfiles. On the host it makes a plan from a Dockerfile, and a snapshot of
// the files that the plan uses. Inside a sandbox it runs one step of the plan. Bothy decides which steps
// to run, and in which sandboxes. bothy-build is a separate program because it links BuildKit's
// frontend, which would slow down every bothy command.
package build

import (
	"strings"

	"github.com/bothy-dev/bothy/internal/program"
)

// Program is the name of the program.
const Program = program.Build

// Argv0 is the name under which the program makes plans: it reads an order and writes a plan (see
// package helper).
const Argv0 = "bothy-build-plan"

// Order asks for a plan.
type Order struct {
	Dockerfile string            `json:"dockerfile"`       // its name in errors
	Text       []byte            `json:"text"`             // its content
	Context    string            `json:"context"`          // the directory that COPY copies from
	Within     string            `json:"within,omitempty"` // a directory in Context to use instead; no link leads out of Context
	Ignore     string            `json:"ignore,omitempty"` // content of the .dockerignore for it
	Args       map[string]string `json:"args,omitempty"`
	Target     string            `json:"target,omitempty"`
	Arch       string            `json:"arch"`
	// Images are the images that are known by now, by their full references.
	Images map[string]Image `json:"images,omitempty"`
	// Snapshot is an empty directory for the files of the context.
	Snapshot string `json:"snapshot"`
}

// Image is the part of an image that a plan needs.
type Image struct {
	Digest string `json:"digest"`
	Config []byte `json:"config"` // the image's configuration, unchanged
}

// Plan lists the steps of a build.
type Plan struct {
	// Need are unknown images. If there are any, the plan has nothing else, and the caller must send
	// another order with them.
	Need []string `json:"need,omitempty"`
	// Vertices are the steps; a step follows the steps that it needs.
	Vertices []Vertex `json:"vertices,omitempty"`
	Result   int      `json:"result"` // the vertex whose root is the image; [None] for an empty one
	Config   []byte   `json:"config,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Unused   []string `json:"unused,omitempty"` // arguments that no ARG declares
	// Context says that the snapshot was made.
	Context bool `json:"context,omitempty"`
}

// None is the vertex number of an empty root.
const None = -1

// Kind is the kind of a vertex.
type Kind string

// Kinds of a vertex.
const (
	FromImage Kind = "image"   // the root of an image
	Context   Kind = "context" // the snapshot; steps only copy from it
	Run       Kind = "run"     // a command
	Files     Kind = "files"   // copies, makes or removes files
)

// Vertex is one step. Its root is that of Base with the step's changes.
type Vertex struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"` // for people
	Line int    `json:"line,omitempty"`
	// Image is the digest of the image, for the kind FromImage.
	Image string `json:"image,omitempty"`
	// Op is the operation for bothy-build, without its inputs.
	Op      []byte   `json:"op,omitempty"`
	Base    int      `json:"base"`
	Sources []Source `json:"sources,omitempty"`
	// Content is a digest of the parts of the context that the step uses.
	Content string   `json:"content,omitempty"`
	Caches  []Cache  `json:"caches,omitempty"`
	Secrets []Secret `json:"secrets,omitempty"`
}

// Source is a vertex that a step reads from in addition to its own root.
type Source struct {
	Input  int `json:"input"` // the operation's number for it
	Vertex int `json:"vertex"`
}

// Cache is a directory that outlives builds.
type Cache struct {
	// ID is a digest of the build's directory, a slash, and the name from the Dockerfile.
	ID      string `json:"id"`
	Mount   int    `json:"mount"` // the operation's number for it
	Private bool   `json:"private,omitempty"`
	Source  int    `json:"source"` // input whose files fill a new cache; [None] for none
}

// Called returns the cache's name for people, as in the Dockerfile.
func (c Cache) Called() string {
	_, name, _ := strings.Cut(c.ID, "/")
	return name
}

// Secret is a secret that a step may read.
type Secret struct {
	ID       string `json:"id"`
	Optional bool   `json:"optional,omitempty"`
}

// Paths inside a sandbox.
const (
	// Dir is where bothy-build and the snapshot are mounted.
	Dir         = "/.bothy/build"
	ProgramPath = Dir + "/" + Program
	ContextPath = Dir + "/context"
	// Stage is a directory of the root for files that a step reads from elsewhere. It is removed before
	// the root is saved.
	Stage = "/.bothy-stage"
)

// Roles of bothy-build inside, given as its first argument.
const (
	RoleReceive = "receive" // unpack an archive into a directory below Stage
	RoleSend    = "send"    // pack the files that an operation reads from an input
	RoleStore   = "store"   // pack a directory below Stage
	RoleDo      = "do"      // run an operation
	RoleClean   = "clean"   // remove Stage
	RoleEnter   = "enter"   // begin a command within mounts of its own
)

// Step is the first line of standard input inside. Data may follow it.
type Step struct {
	Op    []byte `json:"op,omitempty"`
	Input int    `json:"input,omitempty"`
	// Placed are the names of Bothy's files in /etc. Operations do not read them: they are not part of
	// the image.
	Placed []string `json:"placed,omitempty"`
	// Name is the name of a directory below Stage: the one to receive or to store, or the one that an
	// operation changes instead of the root.
	Name string `json:"name,omitempty"`
	// Roots are the directories of the operation's inputs.
	Roots map[int]string `json:"roots,omitempty"`
	// Caches are the directories of the caches below Stage, by their mounts.
	Caches  map[int]string    `json:"caches,omitempty"`
	Secrets map[string][]byte `json:"secrets,omitempty"`
}

// Outcome is the result of RoleDo, written to standard output at the end.
type Outcome struct {
	Exit  int    `json:"exit"`            // exit code of the command
	Error string `json:"error,omitempty"` // why the step was not run
}
