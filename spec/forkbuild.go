package spec

// ForkRequest asks for sandboxes that begin with the state of another one and go on by themselves.
type ForkRequest struct {
	// Sandbox is the name or the ID of the other one.
	Sandbox string `json:"sandbox"`
	// Count is how many forks to make, at most MaxForks. Default: 1.
	Count int `json:"count,omitempty"`
	// Name of the fork; several are NAME-1, NAME-2 ... Default: SANDBOX-fork-1 ...
	Name string `json:"name,omitempty"`
	// Checkpoint is the name of the state to begin from. Default: the present one.
	Checkpoint string `json:"checkpoint,omitempty"`
	// Files leaves out the programs that run, and begins with the files alone.
	Files bool `json:"files,omitempty"`
}

// MaxForks is the most forks that one request makes.
const MaxForks = 100

// BuildRequest asks for an image built from a Dockerfile or a devcontainer.json.
type BuildRequest struct {
	// Directory has the files that the Dockerfile copies, or a devcontainer.json.
	Directory string `json:"directory"`
	// Dockerfile is its path. Default: Dockerfile, dockerfile or Containerfile in the directory, or else its
	// devcontainer.json.
	Dockerfile string `json:"dockerfile,omitempty"`
	// Tag is the name of the image: NAME[:TAG]. Default: the image has none but its digest.
	Tag string `json:"tag,omitempty"`
	// Target is the stage to build. Default: the last.
	Target  string            `json:"target,omitempty"`
	Args    map[string]string `json:"args,omitempty"`
	NoCache bool              `json:"no_cache,omitempty"` // run every step again
	// Pull is as in Request.
	Pull    string   `json:"pull,omitempty"`
	Presets []string `json:"presets,omitempty"`
	Allow   []string `json:"allow,omitempty"`
	Deny    []string `json:"deny,omitempty"`
}
