package wire

import (
	"encoding/json"
	"net/netip"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Protocol is the version of both conversations. The hello of a keeper tells if another version of the
// binary started it.
const Protocol = 1

// Greeting opens a conversation.
type Greeting struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	// Attached is the number of mounts that init attached. Errno is the error of the next one.
	Attached int `json:"attached,omitempty"`
	Errno    int `json:"errno,omitempty"`
}

// Attachment is a mount that init makes before anything else runs inside.
type Attachment struct {
	// Stage is the path where the wall mounted it. If empty, the target is mounted onto itself.
	Stage  string `json:"stage,omitempty"`
	Target string `json:"target"`
	// Make creates a missing mount point.
	Make bool `json:"make,omitempty"`
}

// Operations that a command requests from a keeper.
const (
	OpStatus  = "status"  // Reply: KeeperStatus
	OpExec    = "exec"    // Reply: Started, then frames of the session, last Exit
	OpStop    = "stop"    // Reply: empty, once the sandbox has stopped
	OpDestroy = "destroy" // like OpStop, but at once and without saving anything
	OpPing    = "ping"    // Reply: empty, at once
	OpUp      = "up"      // Reply: empty, once it is recorded that the sandbox runs
	OpBill    = "bill"    // Reply: spec.Bill, all of it on disk
	OpBudget  = "budget"  // Reply: empty, once the limits in Budget apply
	OpPolicy  = "policy"  // Reply: empty, once the rules in Policy apply
	// OpOwnPolicy is OpPolicy for a project whose file cannot be read: the project's layer stays as it
	// is.
	OpOwnPolicy = "own-policy"
	OpLoans     = "loans" // Reply: empty, once the change in Loans applies
	OpPorts     = "ports" // Reply: Ports, once those in Ports apply
	OpSave      = "save"  // Reply: spec.RootLayer, once the root layer is on disk
	// OpStill suspends the sandbox. Reply: empty, once it is suspended and its root layer is written,
	// and its memory if Memory is set. At the next Request it resumes. Reply: Stood, once the layer is
	// on disk, where it stays until the conversation ends.
	OpStill = "still"
	// OpFollow reports the activity of the sandbox. Reply: Happened, at once, and again after each
	// change.
	OpFollow = "follow"
	// OpChanged tells those who follow that the sandbox's spec has changed. Reply: empty.
	OpChanged = "changed"
)

// Ask is a request to a keeper. For OpExec without a terminal it carries three file descriptors:
// standard input, output and error.
type Ask struct {
	Op      string  `json:"op"`
	Command Command `json:"command,omitzero"`
	// Agent marks the sandbox's main session, which others can attach to.
	Agent bool `json:"agent,omitempty"`
	// Detached sessions continue when no client watches; their output is logged.
	Detached bool `json:"detached,omitempty"`
	// Prepares announces another command: a sandbox that was made for one command does not end with this
	// one.
	Prepares bool `json:"prepares,omitempty"`
	// Spares is for OpExec: if the caller vanishes, the program gets SIGHUP, and programs that it has
	// started continue, as at the end of a connection by SSH. Otherwise all of them are ended.
	Spares bool `json:"spares,omitempty"`
	// Policy is for OpPolicy and OpOwnPolicy: the layers of the network policy, as the engine collects
	// them.
	Policy json.RawMessage `json:"policy,omitempty"`
	// Loans is for OpLoans.
	Loans LoanChange `json:"loans,omitzero"`
	// Ports is for OpPorts.
	Ports Ports `json:"ports,omitzero"`
	// Budget is for OpBudget.
	Budget spec.Budget `json:"budget,omitzero"`
	// Unasked is set if no person waits for it: the sandbox does not count as used.
	Unasked bool `json:"unasked,omitempty"`
	// Memory is for OpStill: an empty directory for an image of the memory.
	Memory string `json:"memory,omitempty"`
	// Grace bounds the time that OpStop waits for programs to end; 0 is the usual time. Timeout is the
	// same in whole seconds, for keepers that do not know Grace.
	Grace   spec.Duration `json:"grace,omitzero"`
	Timeout int           `json:"timeout,omitempty"`
}

// Happened counts what a sandbox has done since its start.
type Happened struct {
	// Turns is the number of requests to models that left the sandbox. It excludes those that the
	// gateway did not look into.
	Turns uint64 `json:"turns"`
	// Changes is the number of changes of its spec.
	Changes uint64 `json:"changes,omitempty"`
}

// Stood is the last answer to OpStill.
type Stood struct {
	Pause   spec.Duration `json:"pause"`              // how long it was suspended
	SavedAt *time.Time    `json:"saved_at,omitempty"` // when its layer was saved; the status may say so later
	// Authority is the authority that programs inside trust, if their memory was written. Its key is
	// kept in memory only, and in no image.
	Authority *Authority `json:"authority,omitempty"`
}

// Ports are the connections between a sandbox and its host: in an Ask the complete wanted list, in the
// answer those that are published.
type Ports struct {
	Published []spec.Port `json:"published"`
	Host      []uint16    `json:"host,omitempty"`
}

// Command is a program to run inside.
type Command struct {
	Args []string `json:"args"`           // empty: the user's shell
	Env  []string `json:"env,omitempty"`  // on top of the sandbox's own
	Dir  string   `json:"dir,omitempty"`  // empty: the sandbox's primary directory
	User string   `json:"user,omitempty"` // NAME|UID[:GROUP|GID]; empty: the sandbox's user
	TTY  bool     `json:"tty,omitempty"`
	Size Winsize  `json:"size,omitzero"`
	// Timeout bounds the program and everything that it starts; 0: unlimited.
	Timeout spec.Duration `json:"timeout,omitempty"`
	// Whole says that everything that the program has started ends with it.
	Whole bool `json:"whole,omitempty"`
	// Caller holds the settings of the person who runs it that apply inside.
	Caller Caller `json:"caller,omitzero"`
}

// Caller holds a person's settings on the host that they expect inside.
type Caller struct {
	// Path lists the directories of PATH that are absolute.
	Path []string `json:"path,omitempty"`
	// Locale holds the variables of the language, Env those of the person's preferences, and Terminal
	// those that describe the terminal, each as NAME=VALUE. TZ is the variable, Zone the name of the
	// host's time zone.
	Locale   []string `json:"locale,omitempty"`
	Env      []string `json:"env,omitempty"`
	Terminal []string `json:"terminal,omitempty"`
	TZ       string   `json:"tz,omitempty"`
	Zone     string   `json:"zone,omitempty"`
	// Umask is the file mode mask in octal digits; empty if it is not known.
	Umask string `json:"umask,omitempty"`
	// Named are the paths by which the person named shared directories.
	Named []spec.Named `json:"named,omitempty"`
}

// Started answers OpExec.
type Started struct {
	Session  string `json:"session"`
	PID      int    `json:"pid"`
	Existing bool   `json:"existing,omitempty"` // attached to a program that was running
}

// Spawn asks init to start a session. Ids are numbers, as names are resolved before.
type Spawn struct {
	Args    []string `json:"args"`
	Env     []string `json:"env"`
	Dir     string   `json:"dir"`
	UID     int      `json:"uid"`
	GID     int      `json:"gid"`
	Groups  []int    `json:"groups,omitempty"`
	Elevate bool     `json:"elevate,omitempty"`
	TTY     bool     `json:"tty,omitempty"`
	Size    Winsize  `json:"size,omitzero"`
	// Terminals are names for TERM, the best first. One of them is used if the terminal's own name is
	// unknown inside.
	Terminals []string `json:"terminals,omitempty"`
	// Umask is the file mode mask in octal digits; empty: init's own.
	Umask string `json:"umask,omitempty"`
}

// Spawned answers Spawn.
type Spawned struct {
	PID int `json:"pid"`
}

// Questions to init, sent as a Request on stream zero.
const (
	AskUser    = "user"    // look up User: InitReply.Account
	AskLargest = "largest" // find the program that uses the most memory: InitReply.PID
	AskJoin    = "join"    // connect a server on the inside's loopback to the gateway: Join
	AskListen  = "listen"  // make a socket for programs inside that leads to the gateway: Listen
	AskSilence = "silence" // send nothing after the answer, until AskSpeak
	AskSpeak   = "speak"   // resume sending, perhaps to another peer
	AskTree    = "tree"    // send a signal to a program and everything that it has started: Tree
	AskWatched = "watched" // wait for directories that programs inside watch, after the first Since: InitReply.Watched
	AskChanged = "changed" // tell watchers about Changes by the host
	// AskWorktrees makes placeholders for linked worktrees that are not mounted: Worktrees.
	AskWorktrees = "worktrees"
	// AskNamed makes links at the paths by which shared directories were named: Named, Places.
	// InitReply.Led tells which of the paths lead there.
	AskNamed = "named"
)

// InitAsk is a question to init.
type InitAsk struct {
	ID   uint32 `json:"id"` // repeated in the answer
	Ask  string `json:"ask"`
	User string `json:"user,omitempty"`
	Join Join   `json:"join,omitzero"`
	Tree Tree   `json:"tree,omitzero"`

	Listen Listen `json:"listen,omitzero"`

	Since     int       `json:"since,omitempty"`
	Changes   []Change  `json:"changes,omitempty"`
	Worktrees Worktrees `json:"worktrees,omitzero"`

	Named  []spec.Named `json:"named,omitempty"`
	Places []Place      `json:"places,omitempty"` // the mounts over the root
}

// Worktrees asks init to put a placeholder wherever a worktree registered in git directories would be,
// if nothing exists there: otherwise git inside considers it deleted. Placeholders of worktrees that are
// no longer registered are removed.
type Worktrees struct {
	GitDirs []string `json:"git_dirs"` // paths inside
	Mounts  []Place  `json:"mounts"`   // the mounts over the root
	// Fresh is set if no program runs yet. Otherwise an existing directory is left alone, because a
	// program may be about to fill it.
	Fresh bool `json:"fresh,omitempty"`
}

// Place is a mount point.
type Place struct {
	Path string `json:"path"`
	Own  bool   `json:"own,omitempty"` // the sandbox's own: it shows nothing of the host
}

// MaxWorktrees bounds the number of worktrees that are looked at per git directory.
const MaxWorktrees = 4096

// Listen asks init to listen on a socket and to forward its connections to the gateway.
type Listen struct {
	Path string         `json:"path"`
	To   netip.AddrPort `json:"to"`
}

// The socket at which programs inside find the lent SSH agent, and its port at the gateway.
const (
	AgentSocket = "/tmp/.bothy/ssh-agent"
	AgentPort   = 55
)

// TasksHost is the name at which the gateway serves the tasks of the project, if they are shared.
const TasksHost = "tasks.bothy"

// LoopHost is the name at which the gateway serves the loop that works in the sandbox.
const LoopHost = "loop.bothy"

// GatewayIPv4 is the address of the gateway for programs inside.
var GatewayIPv4 = [4]byte{198, 18, 0, 1}

// Tree is a program inside, everything that it has started, and a signal for them.
type Tree struct {
	PID int `json:"pid"`
	// Mark is NAME=VALUE, a variable in the program's environment.
	Mark   string `json:"mark"`
	Signal int    `json:"signal"`
}

// Join asks init to connect to a port of the inside's loopback and to the gateway, to send Key to the
// gateway, and to copy bytes between the two. It reaches servers that listen only on their own loopback.
type Join struct {
	Port uint16         `json:"port"`
	To   netip.AddrPort `json:"to"`
	Key  string         `json:"key"`
}

// InitReply is init's answer.
type InitReply struct {
	ID      uint32  `json:"id"`
	Error   string  `json:"error,omitempty"`
	Account Account `json:"account,omitzero"`
	PID     int     `json:"pid,omitempty"`
	Command string  `json:"command,omitempty"`

	Watched [][]byte `json:"watched,omitempty"`
	Led     []bool   `json:"led,omitempty"`
}

// Account is an entry of the inside's user database.
type Account struct {
	Name   string `json:"name"`
	UID    int    `json:"uid"`
	GID    int    `json:"gid"`
	Groups []int  `json:"groups,omitempty"`
	Home   string `json:"home"`
	Shell  string `json:"shell"`
}
