// Package keeper is the process that owns one running sandbox: its wall, its
// sessions, its control socket, its root layer and its logs. It is the only
// parent of the processes that make up the wall; when it ends, for whatever
// reason, they end with it.
package keeper

import (
	"encoding/json"
	"time"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Argv0 is the name under which a keeper runs.
const Argv0 = program.Keeper

// Descriptors the engine hands to a keeper.
//
// The lock has a high number for a reason. The sentry moves descriptors to 253
// and up, and where the kernel must enlarge the table of a process with
// threads for that, it makes it wait ten milliseconds and more for a grace
// period. What is forked from a keeper that has such a descriptor has a table
// large enough from the beginning.
const (
	LaunchFD = 3   // a socket: a Launch comes in, readiness goes out
	BothyFD  = 4   // the program that launches, opened with O_PATH: whatever becomes of its name
	LockFD   = 252 // the sandbox's lock, held as long as the keeper lives
)

// OpenFiles is how many files a keeper and its wall must be allowed to open.
const OpenFiles = 1024

// Launch is what a keeper cannot find out by itself: it runs with an empty
// environment, in namespaces of its own.
//
// An empty request follows when the keeper is in its control group: it starts
// no process before. It answers with a Launched in a wire.Reply once the sandbox
// takes commands, or with a wire.Failure.
type Launch struct {
	PID     int    `json:"pid"`     // the keeper's own, as the host counts
	Version string `json:"version"` // of the program that launches
	// Bothy is the path of the program that launches, by its descriptor, for what the keeper has
	// it do. Guest is that of the program inside. Build tells keeper and guest from those of
	// other builds ([driver.Build]).
	Bothy  string             `json:"bothy"`
	Guest  string             `json:"guest"`
	Build  string             `json:"build"`
	Cache  string             `json:"cache"` // where templates keep derived files
	User   string             `json:"user"`  // the caller's name
	Home   string             `json:"home"`  // the home directory's path, inside as outside
	Shell  string             `json:"shell"`
	Cgroup string             `json:"cgroup,omitempty"`
	Limits []spec.Enforcement `json:"limits,omitempty"`
	// Policy are the layers of the network policy: a list of policy.Input.
	Policy json.RawMessage `json:"policy"`
	// Rules is the user's policy file, which the keeper looks at for changes.
	Rules string `json:"rules"`
	// Roots are the caller's SSL_CERT_FILE and SSL_CERT_DIR, where set: whom the
	// gateway lets vouch for servers, instead of the host's usual authorities.
	Roots map[string]string `json:"roots,omitempty"`
	// Authorities vouch for servers besides those, in PEM: the caller's NODE_EXTRA_CA_CERTS.
	// LocalAuthorities are trusted by programs inside besides the public ones.
	Authorities      []byte `json:"authorities,omitempty"`
	LocalAuthorities []byte `json:"local_authorities,omitempty"`
	// Proxies are variables of the caller that name its proxies, with their passwords: they
	// are never written down.
	Proxies []string `json:"proxies,omitempty"`
	// KnownHosts are the caller's files that say which keys SSH servers have.
	KnownHosts []string `json:"known_hosts,omitempty"`
	// Models are names at which models answer.
	Models []string `json:"models,omitempty"`
	// Servers are others, to which the sandbox is pointed, as HOST:PORT; Own is the one of them
	// that it was made for, if it was.
	Servers []string          `json:"servers,omitempty"`
	Own     *wire.ModelServer `json:"own,omitempty"`
	// Prices are what models cost, before the usual ones.
	Prices []price.Price `json:"prices,omitempty"`
	// Tasks is where the tasks of all projects are, if the sandbox may know those of its
	// own; else empty.
	Tasks string `json:"tasks,omitempty"`
	// Runs is where loops are kept, if one works in the sandbox; else empty.
	Runs string `json:"runs,omitempty"`
	// Loans are the secrets lent to the sandbox, with their values: they are
	// never written down.
	Loans []wire.Loan `json:"loans,omitempty"`
	// Unlent are leases without effect, for the status.
	Unlent []spec.Unlent `json:"unlent,omitempty"`
	// Git is what git inside reads before the configuration of repositories, and GitIgnore what it
	// does not commit: of the person's git. Empty: nothing.
	Git       []byte `json:"git,omitempty"`
	GitIgnore []byte `json:"git_ignore,omitempty"`
	// Login is how a login inside is kept on the host; nil: it is not.
	Login *LoginInside `json:"login,omitempty"`
	// GoOn is the directory of a memory image that programs go on from; none if init
	// is to be booted. Authority is whom they trust, with its key; nil: a new one, whom
	// they do not.
	GoOn      string          `json:"go_on,omitempty"`
	Authority *wire.Authority `json:"authority,omitempty"`
	// Program is the directory of the agent's installation, if it has one.
	Program string `json:"program,omitempty"`
	// Runtime is the directory of the installation it runs on, likewise.
	Runtime string `json:"runtime,omitempty"`
	// Image is the root of the container image the sandbox has, if it has one.
	Image *image.Root `json:"image,omitempty"`
	// Zones says that the image knows time zones.
	Zones bool `json:"zones,omitempty"`
	// ImageFile is where that lies.
	ImageFile string `json:"image_file,omitempty"`
	// Config is the agent's configuration of the host, as far as it is shown.
	Config []spec.Mount `json:"config,omitempty"`
	// Programs is where the host's programs belong to nobody (template.Disown); empty: nowhere.
	Programs string `json:"programs,omitempty"`
	// Hidden are paths inside to be covered by an empty directory.
	Hidden []string `json:"hidden,omitempty"`
	// Mounted are the directories of the host that are to be mounted, as the engine found them.
	Mounted []spec.Mounted `json:"mounted,omitempty"`
	// Pids is the limit the wall itself holds, Disk what the sandbox may keep, in bytes, of
	// which the wall bounds the root layer.
	Pids int64 `json:"pids"`
	Disk int64 `json:"disk"`
	// Memory is the limit the keeper watches over itself, in bytes; where a
	// cgroup holds it too, this is the gentler one.
	Memory int64 `json:"memory"`
	// CPUs is the limit of processors; 0 for none. Programs inside see it, and Memory.
	CPUs float64 `json:"cpus,omitempty"`
	// SaveEvery is the shortest time between two background saves.
	SaveEvery spec.Duration `json:"save_every"`
}

// Launched says that the sandbox takes commands.
type Launched struct {
	Unlent string `json:"unlent,omitempty"` // why no secret is lent, although some should
}

// Times a keeper works by.
const (
	defaultSaveEvery = 5 * time.Second
	stopGrace        = 2 * time.Second        // between SIGTERM and SIGKILL inside
	verdictGrace     = 500 * time.Millisecond // the same if it is stopped for what it did
	orphanGrace      = 5 * time.Second        // for a command whose caller vanished

	startTime      = 2 * time.Second // how long a start may take, roughly
	startGCPercent = 400             // see Begin
)
