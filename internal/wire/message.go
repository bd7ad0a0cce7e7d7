package wire

import (
	"encoding/json"
	"net/netip"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Protocol is the version of both conversations. A keeper started by another
// version of the binary is told from its hello.
const Protocol = 1

// Greeting opens a conversation.
type Greeting struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	// Attached is how many mounts init attached, Errno why it did not attach the next.
	Attached int `json:"attached,omitempty"`
	Errno    int `json:"errno,omitempty"`
}

// Attachment is a mount that init makes before anything else runs inside.
type Attachment struct {
	// Stage is where the wall mounted it. Empty: the target is mounted onto itself.
	Stage  string `json:"stage,omitempty"`
	Target string `json:"target"`
	// Make has a missing mount point be made.
	Make bool `json:"make,omitempty"`
}

// Operations a command asks of a keeper.
const (
	OpStatus  = "status"  // Reply: KeeperStatus
	OpExec    = "exec"    // Reply: Started, then frames of the session, last Exit
	OpStop    = "stop"    // Reply: empty, once the sandbox has stopped
	OpDestroy = "destroy" // as OpStop, but at once and without saving anything
	OpPing    = "ping"    // Reply: empty, at once
	OpUp      = "up"      // Reply: empty, once it is written down that the sandbox runs
	OpBill    = "bill"    // Reply: spec.Bill, of which all is on disk
	OpBudget  = "budget"  // Reply: empty, once that in Budget is in force
	OpPolicy  = "policy"  // Reply: empty, once the rules in Policy are in force
	// OpOwnPolicy is OpPolicy without the layer of the project: of that stays what was in force,
	// because its file cannot be read.
	OpOwnPolicy = "own-policy"
	OpLoans     = "loans" // Reply: empty, once the change in Loans is in force
	OpPorts     = "ports" // Reply: Ports, once those in Ports are in force
	OpSave      = "save"  // Reply: spec.RootLayer, once the root layer is on disk
	// OpStill has the sandbox stand still. Reply: empty, once it does and its root
	// layer is written, and its memory if Memory says where; at the next Request it
	// goes on. Reply: Stood, once the layer is on disk, where it stays until the
	// conversation ends.
	OpStill = "still"
	// OpFollow tells what happens in the sandbox. Reply: Happened, at once, and again
	// whenever it has changed.
	OpFollow = "follow"
	// OpChanged tells those who follow that the sandbox's spec has. Reply: empty.
	OpChanged = "changed"
)

// Ask is a request to a keeper. For OpExec without a terminal it comes with
// three file descriptors: standard input, output and error.
type Ask struct {
	Op      string  `json:"op"`
	Command Command `json:"command,omitzero"`
	// Agent marks the sandbox's main session, which others can attach to.
	Agent bool `json:"agent,omitempty"`
	// Detached sessions go on without anybody watching; their output is
	// logged.
	Detached bool `json:"detached,omitempty"`
	// Prepares says that another command follows: a sandbox that was made for one is not
	// over with this.
	Prepares bool `json:"prepares,omitempty"`
	// Policy is OpPolicy's and OpOwnPolicy's: the layers of the network policy, as the engine
	// collects them.
	Policy json.RawMessage `json:"policy,omitempty"`
	// Loans is OpLoans's.
	Loans LoanChange `json:"loans,omitzero"`
	// Ports is OpPorts's.
	Ports Ports `json:"ports,omitzero"`
	// Budget is OpBudget's.
	Budget spec.Budget `json:"budget,omitzero"`
	// Unasked says that no person waits for it: the sandbox does not count as used.
	Unasked bool `json:"unasked,omitempty"`
	// Memory is OpStill's: an empty directory for an image of the memory.
	Memory string `json:"memory,omitempty"`
	// Grace bounds OpStop's wait for programs to end; 0: the usual time. Timeout is the same
	// in whole seconds, for keepers that know of no other.
	Grace   spec.Duration `json:"grace,omitzero"`
	Timeout int           `json:"timeout,omitempty"`
}

// Happened is what a sandbox has done since it was started.
type Happened struct {
	// Turns is how many questions to models have left it. Those that nobody looked
	// into are not known.
	Turns uint64 `json:"turns"`
	// Changes is how often its spec was changed.
	Changes uint64 `json:"changes,omitempty"`
}

// Stood answers OpStill in the end.
type Stood struct {
	Pause   spec.Duration `json:"pause"`              // how long it stood still
	SavedAt *time.Time    `json:"saved_at,omitempty"` // when its layer was saved; the status may say so later
	// Authority is whom programs inside trust, if their memory was written. Its key
	// lies in memory only, and in no image.
	Authority *Authority `json:"authority,omitempty"`
}

// Ports are the ways between a sandbox and its host: in an Ask all that there
// shall be, in the answer those that are published.
type Ports struct {
	Published []spec.Port `json:"published"`
	Host      []uint16    `json:"host,omitempty"`
}

// Command is a program to run inside.
type Command struct {
	Args []string `json:"args"`           // empty: the user's shell
	Env  []string `json:"env,omitempty"`  // over the sandbox's own
	Dir  string   `json:"dir,omitempty"`  // empty: the sandbox's primary directory
	User string   `json:"user,omitempty"` // NAME|UID[:GROUP|GID]; empty: the sandbox's user
	TTY  bool     `json:"tty,omitempty"`
	Size Winsize  `json:"size,omitzero"`
	// Timeout is how long it may take, with all that it starts; 0: for ever.
	Timeout spec.Duration `json:"timeout,omitempty"`
	// Caller holds the settings of the person who runs it, as far as they count inside.
	Caller Caller `json:"caller,omitzero"`
}

// Caller holds what a person has set up on the host and expects inside.
type Caller struct {
	// Path lists the directories of PATH that are absolute.
	Path []string `json:"path,omitempty"`
	// Locale holds the variables of the language, Env those of the person's taste, and Terminal
	// those that describe the terminal, each as NAME=VALUE. TZ is the variable, Zone the host's
	// time zone by its name.
	Locale   []string `json:"locale,omitempty"`
	Env      []string `json:"env,omitempty"`
	Terminal []string `json:"terminal,omitempty"`
	TZ       string   `json:"tz,omitempty"`
	Zone     string   `json:"zone,omitempty"`
	// Umask is the file mode mask in octal digits; empty if it is not known.
	Umask string `json:"umask,omitempty"`
	// Named are paths by which the person named what is shared.
	Named []spec.Named `json:"named,omitempty"`
}

// Started answers OpExec.
type Started struct {
	Session  string `json:"session"`
	PID      int    `json:"pid"`
	Existing bool   `json:"existing,omitempty"` // attached to a program that ran already
}

// Spawn asks init for a session. Ids are numbers: names are resolved before.
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
	// Terminals are names for TERM, the best first, to be used if the terminal's own is not
	// known inside.
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
	AskUser    = "user"    // who is User: InitReply.Account
	AskLargest = "largest" // which program uses the most memory: InitReply.PID
	AskJoin    = "join"    // connect a server of the inside's loopback to the gateway: Join
	AskListen  = "listen"  // have a socket for programs inside that leads to the gateway: Listen
	AskSilence = "silence" // say nothing more after the answer, until AskSpeak
	AskSpeak   = "speak"   // go on talking, perhaps to somebody else
	AskTree    = "tree"    // send a signal to a program and all that it has started: Tree
	AskWatched = "watched" // which directories programs inside watch, after the first Since; waits for one: InitReply.Watched
	AskChanged = "changed" // tell the watchers of Changes that the host made
	// AskWorktrees has placeholders made for linked worktrees that are not shown: Worktrees.
	AskWorktrees = "worktrees"
	// AskNamed has links made at the paths by which shared directories were named: Named, Places;
	// InitReply.Led says which of the paths lead there.
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
	Places []Place      `json:"places,omitempty"` // what is mounted over the root
}

// Worktrees asks init to put a placeholder wherever the worktrees registered in git
// directories would be, if nothing exists there: else git inside takes them for deleted.
// Placeholders of worktrees that are no longer registered are removed.
type Worktrees struct {
	GitDirs []string `json:"git_dirs"` // paths inside
	Mounts  []Place  `json:"mounts"`   // what is mounted over the root
	// Fresh says that no program runs yet. Else a directory that exists is left alone: a
	// program may be about to fill it.
	Fresh bool `json:"fresh,omitempty"`
}

// Place is where something is mounted.
type Place struct {
	Path string `json:"path"`
	Own  bool   `json:"own,omitempty"` // the sandbox's own: nothing of the host is seen there
}

// MaxWorktrees bounds how many worktrees of one git directory are looked at.
const MaxWorktrees = 4096

// Listen asks init to listen at a socket and to carry what connects to it to the
// gateway.
type Listen struct {
	Path string         `json:"path"`
	To   netip.AddrPort `json:"to"`
}

// The socket at which programs inside find the SSH agent that is lent, and the port
// of the gateway that it leads to.
const (
	AgentSocket = "/tmp/.bothy/ssh-agent"
	AgentPort   = 55
)

// TasksHost is the name at which the gateway answers about the tasks of the project, if
// they are shared, and GatewayIPv4 its own address.
const TasksHost = "tasks.bothy"

// LoopHost is likewise the name at which it answers about the loop that works in the sandbox.
const LoopHost = "loop.bothy"

// GatewayIPv4 is where programs inside find the gateway.
var GatewayIPv4 = [4]byte{198, 18, 0, 1}

// Tree is a program inside and what it has started, and a signal for them.
type Tree struct {
	PID int `json:"pid"`
	// Mark is NAME=VALUE, which the program has in its environment.
	Mark   string `json:"mark"`
	Signal int    `json:"signal"`
}

// Join asks init to connect to a port of the inside's loopback and to the
// gateway, to say Key to the latter, and to carry bytes between the two: the
// way to servers that listen to nobody but their own machine.
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
