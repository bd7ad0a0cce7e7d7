// Package launch describes the settings that the engine hands to a keeper.
package launch

import (
	"encoding/json"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Settings are the facts that a keeper cannot find out by itself: it runs with an empty environment, in
// its own namespaces. An empty request follows when the keeper is in its control group; before that it
// starts no process. The keeper answers with a Launched in a wire.Reply once the sandbox takes commands,
// or with a wire.Failure.
type Settings struct {
	PID     int    `json:"pid"`     // the keeper's own pid on the host
	Version string `json:"version"` // of the launching program
	// Bothy is the path of the launching program, by its descriptor; the keeper runs it for some
	// work. Guest is the path of the program inside. Build tells keeper and guest from those of
	// other builds ([driver.Build]).
	Bothy  string             `json:"bothy"`
	Guest  string             `json:"guest"`
	Build  string             `json:"build"`
	Cache  string             `json:"cache"` // where templates keep derived files
	User   string             `json:"user"`  // the caller's name
	Home   string             `json:"home"`  // path of the home directory, the same inside and outside
	Shell  string             `json:"shell"`
	Cgroup string             `json:"cgroup,omitempty"`
	Limits []spec.Enforcement `json:"limits,omitempty"`
	// Policy are the layers of the network policy: a list of policy.Input.
	Policy json.RawMessage `json:"policy"`
	// Rules is the user's policy file, which the keeper checks for changes.
	Rules string `json:"rules"`
	// Roots are the caller's SSL_CERT_FILE and SSL_CERT_DIR, if set. The gateway verifies servers
	// against them instead of the host's usual authorities.
	Roots map[string]string `json:"roots,omitempty"`
	// Authorities are more authorities for servers, in PEM: the caller's NODE_EXTRA_CA_CERTS.
	// LocalAuthorities are trusted by programs inside besides the public ones.
	Authorities      []byte `json:"authorities,omitempty"`
	LocalAuthorities []byte `json:"local_authorities,omitempty"`
	// Proxies are the caller's variables that name its proxies, with their passwords: they are
	// never written down.
	Proxies []string `json:"proxies,omitempty"`
	// KnownHosts are the caller's files with the keys of SSH servers.
	KnownHosts []string `json:"known_hosts,omitempty"`
	// Models are host names of model servers.
	Models []string `json:"models,omitempty"`
	// Servers are further model servers that the sandbox is pointed to, as HOST:PORT. Own is the
	// server that the sandbox was made for, if it was made for one.
	Servers []string          `json:"servers,omitempty"`
	Own     *wire.ModelServer `json:"own,omitempty"`
	// Prices are prices of models; they take precedence over the usual ones.
	Prices []price.Price `json:"prices,omitempty"`
	// Tasks is the directory of the tasks of all projects, if the sandbox may know those of its own
	// project; else empty.
	Tasks string `json:"tasks,omitempty"`
	// Runs is the directory of loops, if one works in the sandbox; else empty.
	Runs string `json:"runs,omitempty"`
	// Loans are the secrets lent to the sandbox, with their values: they are
	// never written down.
	Loans []wire.Loan `json:"loans,omitempty"`
	// Unlent are leases without effect, for the status.
	Unlent []spec.Unlent `json:"unlent,omitempty"`
	// Git is configuration of the user's git that git inside reads before that of repositories.
	// GitIgnore lists files that it does not commit. Empty: nothing.
	Git       []byte `json:"git,omitempty"`
	GitIgnore []byte `json:"git_ignore,omitempty"`
	// Login is how the host keeps a login made inside; nil: it does not.
	Login *Login `json:"login,omitempty"`
	// GoOn is the directory of the memory image that programs continue from; empty if init is to be
	// booted. Authority is the one that those programs trust, with its key; nil: a new one, which
	// they do not trust.
	GoOn      string          `json:"go_on,omitempty"`
	Authority *wire.Authority `json:"authority,omitempty"`
	// Program is the directory of the agent's installation, if it has one.
	Program string `json:"program,omitempty"`
	// Runtime is the directory of the installation that the agent runs on, if it has one.
	Runtime string `json:"runtime,omitempty"`
	// Adapter is the directory of the installation that speaks with editors, if it has one.
	Adapter string `json:"adapter,omitempty"`
	// Image is the root of the sandbox's container image, if it has one.
	Image *image.Root `json:"image,omitempty"`
	// Zones says that the image contains time zones.
	Zones bool `json:"zones,omitempty"`
	// ImageFile is the file of that image.
	ImageFile string `json:"image_file,omitempty"`
	// Config is the part of the host's agent configuration that is shown inside.
	Config []spec.Mount `json:"config,omitempty"`
	// Programs is the directory of the host's programs without an owner (template.Disown); empty: none.
	Programs string `json:"programs,omitempty"`
	// Hidden are paths inside to cover with an empty directory.
	Hidden []string `json:"hidden,omitempty"`
	// Mounted are the host directories to mount, as the engine found them.
	Mounted []spec.Mounted `json:"mounted,omitempty"`
	// Pids is the wall's own limit of processes. Disk is the sandbox's disk limit in bytes; the wall
	// bounds the root layer's part of it.
	Pids int64 `json:"pids"`
	Disk int64 `json:"disk"`
	// Memory is the limit that the keeper enforces itself, in bytes; if a cgroup enforces one too,
	// this is the gentler one.
	Memory int64 `json:"memory"`
	// CPUs is the limit of processors; 0 for none. Programs inside see it, as they see Memory.
	CPUs float64 `json:"cpus,omitempty"`
	// SaveEvery is the shortest time between two background saves.
	SaveEvery spec.Duration `json:"save_every"`
}

// Login says how the host keeps the tokens of an agent that logs in inside.
type Login struct {
	Agent string          `json:"agent"` // its name
	How   spec.AgentLogin `json:"how"`
	Vault string          `json:"vault"` // the directory of the secrets, whose key, lock and log are used
}
