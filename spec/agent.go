package spec

// Agent describes the command line of one coding agent: where it comes from,
// how it is started with all permissions, what it needs at home and from the
// network. It is data; nothing of Bothy knows an agent by its name.
type Agent struct {
	Version int      `json:"version"`
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Title   string   `json:"title"` // as its maker writes it
	// Default are the commands that mean this agent where none is named.
	Default []string `json:"default,omitempty"`

	// Runtime says that this is no agent but what the programs of agents run on:
	// it has a name, a program and a source, and nothing else.
	Runtime bool `json:"runtime,omitempty"`

	// Told is where a runtime that Bothy did not install tells its version, if it cannot
	// be asked.
	Told *AgentTold `json:"told,omitempty"`

	// Install says where the program can be had; nil for one that must be
	// there: on the host, or in the template.
	Install *AgentSource `json:"install,omitempty"`
	// Get tells a person how to come by a program that Bothy does not install.
	// {sandbox} in it stands for the name of the sandbox that lacks it.
	Get string `json:"get,omitempty"`
	// Program is the name, or the absolute path inside, of what is started.
	Program string `json:"program"`
	// Args come behind it and give the agent all permissions: the sandbox is
	// the wall, not the agent's questions.
	Args []string `json:"args,omitempty"`
	// Subcommands are those of the program that take Args, behind them.
	Subcommands []string `json:"subcommands,omitempty"`
	// Headless is how it works without a terminal; nil if it cannot, or nobody
	// described it.
	Headless *AgentHeadless `json:"headless,omitempty"`
	// Transcript is where it keeps what was said in its sessions; nil if nobody
	// described it, or that can be read neither line by line nor as a database.
	Transcript *AgentTranscript `json:"transcript,omitempty"`

	// Env is set for every command in the agent's sandboxes. Home are files its
	// home begins with, so that the agent does not ask what is answered already.
	Env  map[string]string `json:"env,omitempty"`
	Home []AgentFile       `json:"home,omitempty"`

	// Logins are files and directories of its home in which it keeps what it was given by
	// logins of its own means. They are that sandbox's alone: no template and no copy has
	// them. A * in one of the names of such a path stands for any characters.
	Logins []string `json:"logins,omitempty"`

	// Config are files and directories of the host's home that a person may bring
	// in, read-only and at the same place: instructions, skills, commands. None
	// holds a secret. Where Servers has a directory, they lie in that on the host, each by
	// the last part of its name.
	Config []string `json:"config,omitempty"`
	// Servers is where the user's MCP servers stand, which may be brought in too:
	// those that hold no secret. Nil: they are not.
	Servers *AgentServers `json:"servers,omitempty"`

	// Presets are those of the network policy that it cannot work without.
	Presets []string `json:"presets,omitempty"`
	// Allow are hosts beside them, as targets of that policy.
	Allow []string `json:"allow,omitempty"`
	// Credentials are services of the vault, or of Services, it can log in with, the best
	// first. One of them is enough.
	Credentials []string `json:"credentials,omitempty"`
	// Services are those that the vault does not know, by their names.
	Services map[string]AgentService `json:"services,omitempty"`
	// Reach are further presets for one of its credentials, by the service: who is lent
	// that needs them, and nobody else.
	Reach map[string][]string `json:"reach,omitempty"`
	// Login is where the agent keeps what it logged in with by itself; nil if
	// that is not lent.
	Login *AgentLogin `json:"login,omitempty"`
	// Keys are where it keeps API keys that its user gave it on the host, the best first.
	Keys []AgentKey `json:"keys,omitempty"`
	// Refused is where it keeps which keys its user told it not to use: they are not lent
	// by themselves.
	Refused []AgentRefused `json:"refused,omitempty"`
	// Tokens are those of other programs of the host that it takes as well, the best first.
	Tokens []AgentToken `json:"tokens,omitempty"`
	// Elsewhere is how it is told on the host to ask another server than its services'; the
	// first that is set counts. What it has for that server is lent to nobody.
	Elsewhere []AgentElsewhere `json:"elsewhere,omitempty"`
	// Mock is what it is told when a script plays the model; nil: nothing.
	Mock *AgentMock `json:"mock,omitempty"`
	// Server is how it is told of a model server of its user's own; nil: nobody knows how.
	Server *AgentServer `json:"server,omitempty"`
}

// AgentServer tells an agent of a model server of its user's own. In what it is told {server}
// stands for the URL of its root, {server-v1} for that with the version, and {server-model} for what
// it calls the model.
type AgentServer struct {
	Env map[string]string `json:"env,omitempty"`
	// Model are variables for an agent whose user names a model.
	Model map[string]string `json:"model,omitempty"`
	// NeedsModel says that it asks for none by itself.
	NeedsModel bool `json:"needs_model,omitempty"`
	// Key are the variables that hold what it logs in with there, which belongs in Place.
	Key   []string `json:"key"`
	Place Place    `json:"place"`
	// Ignored are variables that people take for such, and it does not read.
	Ignored []string `json:"ignored,omitempty"`
}

// AgentService is a kind of credential: to whom it may go, where in a request it belongs,
// and in which variables it is looked for, inside and on the host.
type AgentService struct {
	Hosts []string `json:"hosts"`
	Place Place    `json:"place"`
	Env   []string `json:"env"`
}

// AgentMock tells an agent that a script plays the model.
type AgentMock struct {
	// Service is that of the vault whose provider is to be played, for an agent that asks
	// no provider of models itself, but can be told to. Default: the first of its
	// credentials which is for models.
	Service string `json:"service,omitempty"`
	// Env tells the agent; {key} in it stands for the made-up key.
	Env map[string]string `json:"env"`
}

// AgentSource is where a program comes from: a package of an npm registry.
type AgentSource struct {
	// Package is the one whose versions and tags are meant.
	Package string `json:"package"`
	// Version is the version or tag that is meant where none is asked for.
	// Default: the tag latest.
	Version string `json:"version,omitempty"`
	// Platforms says, for "OS/ARCH", "OS/ARCH/LIBC", "OS/ARCH/LIBC/baseline" or
	// "any", which package holds the program. The most particular key counts. A
	// key without a libc stands for every one: a static program, or a script.
	Platforms map[string]AgentPlatform `json:"platforms"`
	// Needs is what the program runs on, if that is no part of it.
	Needs *AgentNeed `json:"needs,omitempty"`
}

// AgentTold is a file beside a program that tells the program's version.
type AgentTold struct {
	File string `json:"file"` // from the directory of the program: ../include/x.h
	// Lines are what lines of it begin with that have the parts of the version behind
	// them, the major first.
	Lines []string `json:"lines"`
}

// AgentNeed is a runtime that a program needs. The host's is used if it is new
// enough and visible inside, or the image's; else one that is installed as agents are.
type AgentNeed struct {
	Name    string `json:"name"`    // of the runtime's description
	Version string `json:"version"` // the oldest that will do
}

// AgentPlatform says which package holds the program for a platform.
type AgentPlatform struct {
	// Package is the name under which AgentSource.Package depends on it, which
	// may be an alias of another. Empty: AgentSource.Package itself.
	Package string `json:"package,omitempty"`
	// Version is given if AgentSource.Package does not depend on it: {version}
	// in it stands for that of AgentSource.Package.
	Version string `json:"version,omitempty"`
	// Binary is the program, beneath the package's directory.
	Binary string `json:"binary"`
}

// AgentFile is a file of the agent's home, relative to it.
type AgentFile struct {
	Path string `json:"path"`
	// Text is the content. In it {workspace} stands for the directory the agent
	// starts in, {placeholder:SERVICE} for what stands for a credential, with
	// {placeholder:SERVICE:-N} for the last N characters of that. All are
	// written as in a JSON string.
	Text string `json:"text"`
	// Lent are services of the vault: the file begins so if something of one of them is
	// lent. Empty: whatever is lent. Of several with the same path the first counts
	// that fits; if none does, there is no such file.
	Lent []string `json:"lent,omitempty"`
	// Barred is a host, with its port: the file begins so only where the policy keeps the
	// sandbox from it. Empty: wherever.
	Barred string `json:"barred,omitempty"`
}

// AgentServers is a file of configuration, in JSON or, if it ends with .toml, in TOML,
// below the home directory on the host and inside.
type AgentServers struct {
	File string `json:"file"`
	// Directory is as that of a login, on the host.
	Directory string `json:"directory,omitempty"`
	Key       string `json:"key"` // under which servers stand by their names
	// Projects is the member under which those of single projects stand: by the project's
	// directory on the host, which is its repository's if it lies in one, and then by Key.
	// Empty: there are none.
	Projects string `json:"projects,omitempty"`
}

// AgentLogin describes the file, in JSON, in which an agent keeps the tokens of
// OAuth that it was given when its user logged in on the host, and how they are
// renewed. Access, Refresh, Expires, Identity, Renewed and those in Keep are JSON
// pointers (RFC 6901) to members of objects.
type AgentLogin struct {
	// File lies below the home directory, on the host and inside. Directory is the
	// variable of the host that names another directory for it, or VARIABLE/PATH if that
	// one lies below what the variable names.
	File      string `json:"file"`
	Directory string `json:"directory,omitempty"`
	// Service of the vault says for which hosts the login is and where in a
	// request it belongs.
	Service string `json:"service"`

	Access  string `json:"access"`  // to the token that requests are made with
	Refresh string `json:"refresh"` // to the one that gets the next
	// Expires leads to the end of the access token, in milliseconds since 1970.
	// Empty: the token is a JWT and says so itself.
	Expires  string `json:"expires,omitempty"`
	Identity string `json:"identity,omitempty"` // to an ID token, a JWT
	Renewed  string `json:"renewed,omitempty"`  // to when it was renewed last, as RFC 3339 has it

	// Keep is what else of the file the agent needs inside, Claims what it needs of
	// what JWTs say. Neither may be secret.
	Keep   []string `json:"keep,omitempty"`
	Claims []string `json:"claims,omitempty"`

	Endpoint string `json:"endpoint"` // the URL where tokens are renewed
	Client   string `json:"client"`   // the agent's ID there
	// ClientSecret is what some servers want beside it. In a program that everybody has,
	// it is no secret (RFC 8252, section 8.5).
	ClientSecret string `json:"client_secret,omitempty"`
	// Form is how the endpoint is asked; empty: as OAuth has it.
	Form string `json:"form,omitempty"`
	// Lock says that the agent, while it renews, makes a directory beside that of
	// the file, with its name and .lock behind it.
	Lock bool `json:"lock,omitempty"`
	// Again is what to run on the host to log in again.
	Again string `json:"again"`
	// Capture keeps what is got by logging in inside on the host; nil: it is not known how.
	Capture *AgentCapture `json:"capture,omitempty"`
}

// AgentKey is an API key in a file of the host in which an agent keeps what it was told.
type AgentKey struct {
	// File, in JSON or, if it is called .env, with lines NAME=VALUE, lies below the home
	// directory. Directory is as that of a login.
	File      string `json:"file"`
	Directory string `json:"directory,omitempty"`
	// Service of the vault, one of the agent's credentials, is what the key is for.
	Service string `json:"service"`
	// Key is a JSON pointer (RFC 6901) to it, through objects, in which a name that ends
	// with * is that of the one member that begins so; or NAME.
	Key string `json:"key"`
	// Command says that a command stands there which prints the key. It is never run: a
	// person is told of it.
	Command bool `json:"command,omitempty"`
	// Paths of the service's hosts are all that it is lent for; none: it is for nothing else anyway.
	Paths []string `json:"paths,omitempty"`
}

// AgentRefused is a list of keys in a file of the host, or of what they end with.
type AgentRefused struct {
	// File, in JSON, Directory and Service are as those of an AgentKey; Key is a JSON
	// pointer to the list.
	File      string `json:"file"`
	Directory string `json:"directory,omitempty"`
	Service   string `json:"service"`
	Key       string `json:"key"`
	// Last is how many characters of a key stand there, its last; none: all of it.
	Last int `json:"last,omitempty"`
}

// AgentToken is a token of another program of the host, which may do more than the agent
// needs: it is lent as what the agent has of its own would be, for the paths alone.
type AgentToken struct {
	Tool    string   `json:"tool"`    // as bothy secret sources has it
	Server  string   `json:"server"`  // whose token of it
	Service string   `json:"service"` // of the vault, one of the agent's credentials
	Paths   []string `json:"paths"`   // of the service's hosts
}

// AgentElsewhere is where the name or the URL of a server stands on the host.
type AgentElsewhere struct {
	// Variable has it; empty: no variable does.
	Variable string `json:"variable,omitempty"`
	// Services are those of the agent's credentials whose server it names; none: all.
	Services []string `json:"services,omitempty"`
	// File, Directory and Key say where it may stand before, as those of an AgentKey; the
	// file may be one in TOML, or in JSON with comments.
	File      string `json:"file,omitempty"`
	Directory string `json:"directory,omitempty"`
	Key       string `json:"key,omitempty"`
	// Also are other files of that kind: below the home directory, where Directory is of
	// those that lie beside File, or absolute, when a * in the name stands for any characters.
	Also []string `json:"also,omitempty"`
	// Own are names of servers with which it is told nothing new.
	Own []string `json:"own"`
}

// AgentCapture says what comes in of a server's answer to a login inside, beside what
// stands for the tokens.
type AgentCapture struct {
	Pass []string `json:"pass,omitempty"` // members of the answer that are no secrets
}

// FormJSON is the form of an endpoint that is asked in JSON.
const FormJSON = "json"
