// This file is policy, not a record of the code. Do not change it to make a build pass: change the code,
// or argue for a new rule.
package archtest

// module is the path of the main module.
const module = "github.com/bothy-dev/bothy"

// layers gives every package its place, bottom to top. A package imports only packages from lines above
// its own, so packages on one line do not know each other. A name that ends in /... is a tree; imports
// within it are free.
//
//	words · leaves · mechanisms · the inside · the wall · who owns it · the host's view · work in it ·
//	the command line · the programs · programs that use them · tests of it all
const layers = `
spec
internal/passwd internal/program internal/strictyaml
internal/sums internal/audit internal/store internal/term internal/wire internal/nsproc internal/policy/... internal/trust internal/npmrc internal/modelscript internal/image/erofs internal/helper internal/fetch internal/sealedfile internal/task internal/build internal/price internal/gctune internal/quota internal/dirwatch internal/linediff internal/devcontainer internal/gate internal/sqlite internal/sftp internal/hostproxy internal/hostpath/look internal/elsewhere
internal/hostpath internal/gitdir internal/hostproxy/transport internal/carried internal/review/quote internal/checkpoint/manifest internal/rulefiles
internal/review/beneath internal/checkpoint/packfile
internal/review/risk internal/review/record internal/checkpoint/merge
internal/review
internal/apitoken internal/apiport internal/hostroot internal/tui internal/acp internal/cgroup internal/workspace internal/review/patch internal/review/hardlinks internal/clone internal/layer internal/layer/content internal/checkpoint internal/archive internal/wire/unixconn internal/vault internal/oauthfile internal/agent/transcript internal/image internal/task/book internal/build/cache internal/build/plan internal/build/step internal/run
internal/flow/flowplan internal/loop/loopplan internal/loop/taskqueue
internal/review/apply internal/vault/sealer internal/agent internal/savedtemplate internal/hostcreds internal/gitdefaults internal/modelserver internal/taskserver internal/image/layers internal/image/export internal/loop internal/flow internal/task/database internal/vault/ask
internal/changes internal/loopserver internal/settings internal/credential internal/modelmock
internal/agent/npm internal/image/pull
internal/agent/install
internal/gateway/...
internal/guest internal/driver/gvisor/starter
internal/driver
internal/driver/usage
internal/driver/drivertest
internal/driver/gvisor
internal/keeper/initlink internal/keeper/worktrees internal/keeper/traffic internal/keeper/ports internal/keeper/launch internal/keeper/status internal/keeper/bill
internal/keeper/session internal/keeper/disk internal/keeper/machine internal/keeper/command internal/keeper/grants internal/keeper/shortage
internal/keeper/hostchanges
internal/keeper
internal/rootfs
internal/agentprogram internal/keeperclient internal/away internal/notify
internal/netrules internal/hostdirs internal/records internal/feed internal/ownerkey
internal/agenthome
internal/prestart
internal/engine internal/doctor internal/verify
internal/headless
internal/setup internal/reconfigure internal/otheragent
internal/snapshot
internal/builder
internal/template internal/editor
internal/provision
internal/sshserver
internal/sshsetup
internal/app
internal/runner
internal/runstate
internal/launch
internal/document
internal/server/...
internal/cli/console
internal/cli/cmdline
internal/cli/agents internal/cli/checkpoints internal/cli/editors internal/cli/images internal/cli/network internal/cli/reviews internal/cli/secrets internal/cli/serving internal/cli/tasks
internal/cli/runview
internal/cli/runs internal/cli/system

internal/cli
cmd/bothy cmd/bothy-keeper cmd/bothy-guest cmd/bothy-build
client
examples/...
internal/archtest internal/leaktest internal/racetest internal/smalldisk internal/keeper/keepertest internal/task/tasktest internal/trust/clienttest internal/agent/registrytest internal/image/imagetest internal/credential/credentialtest internal/runstate/runstatetest test/... bench/...
`

// exceptions are imports against the order of the layers, each with its reason.
var exceptions = map[string]string{
	// "importer imported": "reason",
}

// doors maps an import, and everything below it, to the packages that may use it. An empty list allows
// no package. Tests are free.
var doors = []struct {
	path string
	by   []string
	why  string
}{
	{"gvisor.dev/gvisor", []string{"internal/driver/gvisor", "internal/gateway/netstack", "internal/gateway/insidetest"}, "the wall can be replaced, and its API changes without notice; the gateway uses its network stack alone"},
	{"github.com/opencontainers/runtime-spec", []string{"internal/driver/gvisor"}, "the words of gVisor's interface, not ours"},
	{"github.com/spf13/cobra", []string{"internal/cli", "internal/cli/console", "internal/cli/cmdline", "internal/cli/agents", "internal/cli/checkpoints", "internal/cli/editors", "internal/cli/images", "internal/cli/network", "internal/cli/reviews", "internal/cli/runs", "internal/cli/secrets", "internal/cli/serving", "internal/cli/system", "internal/cli/tasks"}, "how a command line is parsed is nobody else's business"},
	{"github.com/spf13/pflag", []string{"internal/cli", "internal/cli/cmdline", "internal/cli/runs"}, "cobra's flags"},
	{"github.com/goccy/go-yaml", []string{"internal/policy/document", "internal/hostcreds", "internal/strictyaml"}, "the decoder can be swapped as long as few know it: nodes of a policy, the file gh writes, and the reader of all other files"},
	{"github.com/BurntSushi/toml", []string{"internal/agent", "internal/oauthfile"}, "one agent keeps its settings in TOML: its MCP servers, and which server it asks"},
	{"github.com/tailscale/hujson", []string{"internal/devcontainer", "internal/oauthfile"}, "JSON with comments is what editors write, and people into settings of agents; nothing of ours is"},
	{"filippo.io/age", []string{"internal/vault/sealer"}, "who opens secrets is a process of its own"},
	{"github.com/godbus/dbus", []string{"internal/vault/sealer"}, "the desktop's keyring, and nothing else on the bus"},
	{"os/exec", []string{"internal/hostpath", "internal/helper", "internal/credential", "internal/engine", "internal/prestart", "internal/snapshot", "internal/doctor", "internal/clone", "internal/build/step", "internal/task/book", "internal/vault/ask", "examples/loop"}, "who starts processes on the host is easy to review; programs of the host are found and prepared by hostpath; credential runs the commands that print secrets; snapshot has a process of bothy make the automatic checkpoints; helper has processes of bothy read untrusted input; who makes clones has git pack, check out and check, in directories of ours; who fetches images asks the helpers that Docker's configuration names; the steps of a build start theirs inside; who keeps tasks has them kept by a process; who seals a value has that done by one"},
	{"net/http", []string{"internal/gateway", "internal/gateway/advice", "internal/gateway/inspect", "internal/gateway/inspect/form", "internal/gateway/inspect/http1", "internal/gateway/inspect/upstream", "internal/gateway/inject", "internal/gateway/tokenrefresh", "internal/fetch", "internal/agent/npm", "internal/image/pull", "internal/modelserver", "internal/taskserver", "internal/hostproxy/transport", "internal/server", "internal/server/guard"}, "bothy serve answers programs on the host, behind a guard; the gateway looks into requests, says why it refused one, and renews the logins it lends, a scripted model and the desk of tasks answer them, the processes that install agents and fetch images ask registries, by one way to ask and by proxies that one package tells both of, and nobody else speaks HTTP"},
	{"github.com/moby", []string{"internal/build/plan", "internal/build/step"}, "BuildKit promises no API, and is not for the binary that sandboxes start from"},
	{"github.com/tonistiigi", []string{"internal/build/plan", "internal/build/step"}, "how BuildKit walks through trees and copies them"},
	{"github.com/klauspost/compress", []string{"internal/image/pull", "internal/build/step"}, "layers may be compressed with zstd; its gzip costs 27 KiB in init"},
	{"modernc.org", []string{"internal/task/database"}, "who keeps tasks is a process of its own; what was written inside is read by package sqlite"},
	{"database/sql", []string{"internal/task/database"}, "likewise"},
	{"plugin", nil, "one static binary"},
	{"C", nil, "cgo makes gVisor's children start twice"},
	{"unsafe", []string{"internal/driver/gvisor"}, "for go:linkname, and a field that is not exported: the compiled seccomp filters go into a table gVisor does not export, and what it does at every start cannot be told from outside"},
	{"testing", nil, "tests stay out of the binary; suites in packages of their own are named in suites"},
}

// suites are packages that exist only for tests of others. The binary must not
// link them.
var suites = []string{"internal/driver/drivertest", "internal/gateway/insidetest", "internal/gateway/grpctest", "internal/leaktest", "internal/racetest", "internal/smalldisk", "internal/keeper/keepertest", "internal/task/tasktest", "internal/trust/clienttest", "internal/agent/registrytest", "internal/image/imagetest", "internal/credential/credentialtest", "internal/runstate/runstatetest", "internal/archtest", "test", "bench"}

// namedBy lists the files and packages whose strings may contain the name of an agent, each with its
// reason. All other code learns about an agent from its description, so that a user's own agent lacks
// nothing that ours have. Comments, examples and tests are free.
var namedBy = map[string]string{
	"internal/vault/service.go":         "providers and their variables, some of which are called as an agent is; services are named by descriptions",
	"internal/price/usual.go":           "models, which are called so by whoever sells them",
	"internal/review/risk/flag.go":      "files of projects that programs on the host obey, described here or not",
	"internal/modelserver":              "the APIs of providers and their clients, for scripts that play a model",
	"internal/sshsetup/link.go":         "links of editors, one of which is called as an agent is",
	"internal/gateway/inspect/limit.go": "headers with which providers tell of limits",
}

// helpFields are the fields of a cobra.Command that hold help text, whose examples may name agents. The
// code does not depend on literals under these keys.
var helpFields = []string{"Long", "Example", "Args"}

// notLinked is what a program must not link, with the reason.
var notLinked = map[string]map[string]string{
	"cmd/bothy": {
		"gvisor.dev/gvisor":                      "bothy-keeper has it: every command would wait for its init",
		"github.com/moby/buildkit":               "bothy-build has it",
		"github.com/google/go-containerregistry": "it brings docker/cli and logrus, and compiles a dozen regular expressions in init: 140 KiB; the client in image/pull is ours",
	},
	"cmd/bothy-keeper": {
		"gvisor.dev/gvisor/runsc/cli/maincli":          "it embeds 47 MB; the command map in driver/gvisor is ours",
		"gvisor.dev/gvisor/runsc/gvisorbinaries/embed": "the 47 MB themselves",
		"filippo.io/age":           "who opens secrets is a process of its own",
		"modernc.org":              "who keeps tasks is a process of its own",
		"github.com/moby/buildkit": "bothy-build has it",
		"github.com/spf13/pflag":   "it has no command line",
	},
	"cmd/bothy-build": { // BuildKit decides the rest
		"testing":           "a test's code",
		"gvisor.dev/gvisor": "the keeper has it",
		"github.com/moby/buildkit/solver/llbsolver/ops":  "plans are carried out by package builder",
		"github.com/moby/buildkit/executor/runcexecutor": "commands are run by the keeper",
	},
	"cmd/bothy-guest": {
		"net":           "every small process of a sandbox would pay for its init",
		"net/http":      "likewise",
		"encoding/gob":  "likewise",
		"text/template": "likewise",
		"regexp":        "likewise",
		"log/slog":      "likewise",
	},
}

// linkedNowhere is what no program but bothy-build may link.
var linkedNowhere = map[string]string{
	"testing":                         "a test's code",
	"k8s.io":                          "30 MB",
	"github.com/google/go-cmp":        "for tests",
	"github.com/google/jsonschema-go": "for tests: in init it takes 84 KiB, others 1700; the evaluator in gate is ours, and compared with it",
	"github.com/rogpeppe/go-internal": "for tests",
	"google.golang.org/grpc":          "for tests",
	"go.uber.org/goleak":              "for tests",
	"pgregory.net/rapid":              "for tests, and under another licence",
}

// guestDeps is all that bothy-guest may link from outside the standard library and this module.
var guestDeps = []string{"golang.org/x/sys/unix"}

// pins are versions that move only together, or not at all. Required modules must be present; the others
// are checked as soon as the module is a dependency.
var pins = []struct {
	module, version string
	required        bool
	why             string
}{
	{"gvisor.dev/gvisor", "v0.0.0-20260905035102-160fafc42237", true, "read facts and flags again before a bump: sidecars, restore, RPC names"},
	{"github.com/opencontainers/runtime-spec", "v1.2.1", true, "v1.3.0 makes LinuxPids.Limit a pointer: gVisor does not compile"},
	{"github.com/moby/buildkit", "v0.26.3", true, "later ones need runtime-spec v1.3.0"},
	{"github.com/containerd/containerd/v2", "v2.2.0", false, "later ones need runtime-spec v1.3.0"},
	{"github.com/containerd/cgroups/v3", "v3.1.0", false, "later ones come with runtime-spec v1.3.0"},
	{"github.com/opencontainers/cgroups", "", false, "it needs runtime-spec v1.3.0: read cgroup files ourselves"},
	{"github.com/mattn/go-runewidth", "v0.0.31", false, "v0.0.26 and 27 cost 20 to 100 ms in init"},
	{"modernc.org/sqlite", "v1.60.1", true, "v1.61 does not tidy"},
}

// initBudgets bound the allocations of a program's init functions. gVisor starts bothy-keeper again for
// the sentry and the gofer, and every sudo in a sandbox runs a bothy-guest. Bytes and allocations do not
// flake; milliseconds do. Lower the numbers when they fall; raising them takes an argument.
var initBudgets = map[string]struct{ bytes, allocs int }{
	"cmd/bothy":        {1 << 20, 10_000},
	"cmd/bothy-keeper": {1400 << 10, 11_200},
	"cmd/bothy-guest":  {10 << 10, 120},
}

const (
	initOwnBytes  = 4 << 10  // of all our own packages together: init does no work
	initNamedFrom = 64 << 10 // packages above this are named in the failure
)

// manyMethods are types with more methods than maxMethods, each with the number that it has. The numbers only
// fall.
var manyMethods = map[string]int{}

// largePackages are packages with more lines than maxPackage, each with the most that it may have. The numbers
// only fall.
var largePackages = map[string]int{}

// maxShortNames is the number of unexported functions whose names have five letters or fewer.
const maxShortNames = 93
