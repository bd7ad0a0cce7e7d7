package spec

// Agent describes the command line of one coding agent: its source, how Bothy starts it with all
// permissions, and its needs at home and from the network. It is only data: Bothy's code does not refer
// to an agent by name.
type Agent struct {
	Version int      `json:"version"`
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Title   string   `json:"title"` // as its maker spells it
	// Default are the commands for which this agent is the default.
	Default []string `json:"default,omitempty"`

	// Runtime marks a runtime that agents' programs run on, not an agent. It has a name, a program
	// and a source, and nothing else.
	Runtime bool `json:"runtime,omitempty"`

	// Told is a file that holds the version of a runtime that Bothy did not install and cannot ask.
	Told *AgentTold `json:"told,omitempty"`

	// Install is the source of the program. Nil: the program must exist on the host or in the
	// template.
	Install *AgentSource `json:"install,omitempty"`
	// Get tells the user how to install a program that Bothy does not install. {sandbox} in it is
	// replaced by the name of the sandbox that lacks the program.
	Get string `json:"get,omitempty"`
	// Program is the name of the program to start, or its absolute path inside the sandbox.
	Program string `json:"program"`
	// Args follow the program and give the agent all permissions: the sandbox confines the agent,
	// not the agent's own prompts.
	Args []string `json:"args,omitempty"`
	// Subcommands are the program's subcommands that take Args after them.
	Subcommands []string `json:"subcommands,omitempty"`
	// Headless says how to run the agent without a terminal. Nil: it cannot, or its description does
	// not say how.
	Headless *AgentHeadless `json:"headless,omitempty"`
	// Transcript says where the agent keeps the transcripts of its sessions. Nil: they are not
	// described, or are neither JSON lines nor a database.
	Transcript *AgentTranscript `json:"transcript,omitempty"`

	// Env is set for every command in the agent's sandboxes. Home are the initial files of its home.
	// They answer the agent's first-run questions in advance.
	Env  map[string]string `json:"env,omitempty"`
	Home []AgentFile       `json:"home,omitempty"`

	// Logins are files and directories of the agent's home that hold credentials from its own login
	// inside the sandbox. They belong to that sandbox: templates and copies leave them out. A * in a
	// path element matches any characters.
	Logins []string `json:"logins,omitempty"`

	// Config are files and directories of the host's home that the user may share read-only, at the
	// same path: instructions, skills, commands. None holds a secret. If Servers has a directory,
	// they are in that directory on the host, each by the last element of its path.
	Config []string `json:"config,omitempty"`
	// Servers is the file that lists the user's MCP servers. Those without a secret may be shared
	// too. Nil: none are.
	Servers *AgentServers `json:"servers,omitempty"`

	// Presets are the presets of the network policy that the agent cannot work without.
	Presets []string `json:"presets,omitempty"`
	// Allow are further hosts that it needs, as targets of that policy.
	Allow []string `json:"allow,omitempty"`
	// Credentials are services of the vault, or of Services, that it can log in with, the best first.
	// One of them is enough.
	Credentials []string `json:"credentials,omitempty"`
	// Services are services that the vault does not know, by their names.
	Services map[string]AgentService `json:"services,omitempty"`
	// Reach maps a service to the further presets that its credential needs. Only a sandbox that is
	// lent that credential gets them.
	Reach map[string][]string `json:"reach,omitempty"`
	// Login is the file in which the agent keeps its own login. Nil: Bothy does not lend that login.
	Login *AgentLogin `json:"login,omitempty"`
	// Keys are the files in which the agent keeps API keys that its user gave it on the host, the
	// best first.
	Keys []AgentKey `json:"keys,omitempty"`
	// Refused is the list of keys that the user told the agent not to use. Bothy does not lend them
	// by itself.
	Refused []AgentRefused `json:"refused,omitempty"`
	// Tokens are tokens of other programs of the host that the agent also accepts, the best first.
	Tokens []AgentToken `json:"tokens,omitempty"`
	// Elsewhere are the settings on the host that point the agent to another server than those of
	// its services. The first that is set counts. Credentials for that server are not lent.
	Elsewhere []AgentElsewhere `json:"elsewhere,omitempty"`
	// Mock configures the agent when its model is a mock. Nil: it needs no settings.
	Mock *AgentMock `json:"mock,omitempty"`
	// Server configures the agent for a model server of the user's own. Nil: the description does
	// not say how.
	Server *AgentServer `json:"server,omitempty"`
	// ACP says how the agent speaks with editors, by the Agent Client Protocol. Nil: it does not, or its
	// description does not say how.
	ACP *AgentACP `json:"acp,omitempty"`
}

// AgentACP says how an agent speaks the Agent Client Protocol on its standard streams.
type AgentACP struct {
	// Args follow the program, or the adapter.
	Args []string `json:"args,omitempty"`
	// Adapter is the source of another program, which speaks for the agent. Nil: the agent speaks itself.
	Adapter *AgentSource `json:"adapter,omitempty"`
	// Env are further variables. {program} in a value is the path of the agent's program inside.
	Env map[string]string `json:"env,omitempty"`
	// Bypass is the mode of a session in which the agent asks for no permission. Empty: it has none.
	Bypass string `json:"bypass,omitempty"`
}

// AgentServer configures an agent for a model server of the user's own. In its values {server} is
// replaced by the server's root URL, {server-v1} by that URL with the version, and {server-model}
// by the server's name for the model.
type AgentServer struct {
	Env map[string]string `json:"env,omitempty"`
	// Model are variables for an agent whose user names a model.
	Model map[string]string `json:"model,omitempty"`
	// NeedsModel says that the agent does not choose a model by itself.
	NeedsModel bool `json:"needs_model,omitempty"`
	// Key are the variables for the agent's credential at that server. Requests carry it in Place.
	Key   []string `json:"key"`
	Place Place    `json:"place"`
	// Ignored are variables that users often set for this, but that the agent does not read.
	Ignored []string `json:"ignored,omitempty"`
}

// AgentService is a kind of credential: the hosts it may be sent to, its place in a request, and
// the variables that hold it inside and on the host.
type AgentService struct {
	Hosts []string `json:"hosts"`
	Place Place    `json:"place"`
	Env   []string `json:"env"`
}

// AgentMock configures an agent whose model is a mock.
type AgentMock struct {
	// Service is the vault's service whose provider the script plays. It is for an agent that has no
	// model provider of its own but can be pointed at one. Default: the agent's first credential
	// that is for models.
	Service string `json:"service,omitempty"`
	// Env configures the agent; {key} in it stands for the made-up key.
	Env map[string]string `json:"env"`
}

// AgentSource is the source of a program: a package of an npm registry.
type AgentSource struct {
	// Package is the package whose versions and tags count.
	Package string `json:"package"`
	// Version is the version or tag to use if the user names none. Default: the tag latest.
	Version string `json:"version,omitempty"`
	// Platforms says, for "OS/ARCH", "OS/ARCH/LIBC", "OS/ARCH/LIBC/baseline" or "any", which package
	// holds the program. The most specific key counts. A key without a libc stands for every one: a
	// static program, or a script.
	Platforms map[string]AgentPlatform `json:"platforms"`
	// With are further packages that the program's own loads, each as PACKAGE@VERSION with a whole
	// version. They are placed in its node_modules.
	With []string `json:"with,omitempty"`
	// Needs is the runtime of the program, if the package does not contain it.
	Needs *AgentNeed `json:"needs,omitempty"`
}

// AgentTold is a file beside a program that holds the program's version.
type AgentTold struct {
	File string `json:"file"` // relative to the directory of the program: ../include/x.h
	// Lines are prefixes of the lines that hold the parts of the version, the major first.
	Lines []string `json:"lines"`
}

// AgentNeed is a runtime that a program needs. Bothy uses the host's if it is new enough and visible
// inside, or else the image's; otherwise it installs one as it installs agents.
type AgentNeed struct {
	Name    string `json:"name"`    // of the runtime's description
	Version string `json:"version"` // the oldest that works
}

// AgentPlatform says which package holds the program for a platform.
type AgentPlatform struct {
	// Package is the name under which AgentSource.Package depends on it, which may be an alias. Empty:
	// AgentSource.Package itself.
	Package string `json:"package,omitempty"`
	// Version is set if AgentSource.Package does not depend on it. {version} in it stands for the
	// version of AgentSource.Package.
	Version string `json:"version,omitempty"`
	// Binary is the path of the program in the package's directory.
	Binary string `json:"binary"`
}

// AgentFile is a file of the agent's home, relative to it.
type AgentFile struct {
	Path string `json:"path"`
	// Text is the content. In it {workspace} is replaced by the directory the agent starts in,
	// {placeholder:SERVICE} by the placeholder of a credential, and {placeholder:SERVICE:-N} by the
	// last N characters of that placeholder. All are written as in a JSON string.
	Text string `json:"text"`
	// Lent are services of the vault: the file has this content if a credential of one of them is
	// lent. Empty: it always has. If several files have the same path, the first match counts.
	// Without a match the file is not created.
	Lent []string `json:"lent,omitempty"`
	// Barred is a host with its port. The file has this content only if the policy denies the
	// sandbox that host. Empty: it always has.
	Barred string `json:"barred,omitempty"`
}

// AgentServers is a configuration file in JSON or, if its name ends with .toml, in TOML. Its path is
// below the home directory, on the host and inside.
type AgentServers struct {
	File string `json:"file"`
	// Directory is as in AgentLogin, on the host.
	Directory string `json:"directory,omitempty"`
	Key       string `json:"key"` // the member that maps names to servers
	// Projects is the member that holds the servers of single projects: by the project's directory
	// on the host, or by the repository that contains it, and then by Key. Empty: no such member.
	Projects string `json:"projects,omitempty"`
}

// AgentLogin describes the file, in JSON, in which an agent keeps the OAuth tokens of its user's login
// on the host, and how they are renewed. Access, Refresh, Expires, Identity, Renewed and those in Keep
// are JSON pointers (RFC 6901) to members of objects.
type AgentLogin struct {
	// File is below the home directory, on the host and inside. Directory is the host's variable
	// that names another directory for it, or VARIABLE/PATH if File is below that directory.
	File      string `json:"file"`
	Directory string `json:"directory,omitempty"`
	// Service is the vault's service: it defines the hosts of the login and its place in a request.
	Service string `json:"service"`

	Access  string `json:"access"`  // to the access token
	Refresh string `json:"refresh"` // to the refresh token
	// Expires leads to the expiry of the access token, in milliseconds since 1970. Empty: the token is a
	// JWT that contains it.
	Expires  string `json:"expires,omitempty"`
	Identity string `json:"identity,omitempty"` // to an ID token, a JWT
	Renewed  string `json:"renewed,omitempty"`  // to the time of the last renewal, in the form of RFC 3339

	// Keep are further parts of the file that the agent needs inside. Claims are the JWT claims that
	// it needs. Neither may be secret.
	Keep   []string `json:"keep,omitempty"`
	Claims []string `json:"claims,omitempty"`

	Endpoint string `json:"endpoint"` // the URL where tokens are renewed
	Client   string `json:"client"`   // the agent's ID there
	// ClientSecret is required by some servers in addition to Client. It is not secret, since the
	// program is public (RFC 8252, section 8.5).
	ClientSecret string `json:"client_secret,omitempty"`
	// Form is the form of requests to the endpoint; empty: the form of OAuth.
	Form string `json:"form,omitempty"`
	// Lock says that the agent, while it renews, makes a lock directory beside the directory of the
	// file: the same name with .lock appended.
	Lock bool `json:"lock,omitempty"`
	// Again is the command to log in again on the host.
	Again string `json:"again"`
	// Capture says how the host keeps a login that the agent makes inside. Nil: the description does
	// not say how.
	Capture *AgentCapture `json:"capture,omitempty"`
}

// AgentKey is an API key in a file of the host in which an agent keeps its settings.
type AgentKey struct {
	// File is below the home directory. It is JSON, or lines NAME=VALUE if its name is .env. Directory
	// is as in AgentLogin.
	File      string `json:"file"`
	Directory string `json:"directory,omitempty"`
	// Service is the vault's service that the key is for, one of the agent's credentials.
	Service string `json:"service"`
	// Key is a JSON pointer (RFC 6901) to the key, through objects, or a NAME. In a pointer, a name that
	// ends with * matches the one member that begins so.
	Key string `json:"key"`
	// Command says that the field holds a command that prints the key. Bothy never runs it, but
	// tells the user about it.
	Command bool `json:"command,omitempty"`
	// Paths of the service's hosts restrict where the key may be used. None: the key works nowhere
	// else anyway.
	Paths []string `json:"paths,omitempty"`
}

// AgentRefused is a list, in a file of the host, of refused keys or of their last characters.
type AgentRefused struct {
	// File, in JSON, Directory and Service are as in AgentKey; Key is a JSON pointer to the list.
	File      string `json:"file"`
	Directory string `json:"directory,omitempty"`
	Service   string `json:"service"`
	Key       string `json:"key"`
	// Last is how many of the last characters of each key the list has. 0: the whole key.
	Last int `json:"last,omitempty"`
}

// AgentToken is a token of another program of the host, which may permit more than the agent needs.
// Bothy lends it like the agent's own credential, but only for Paths.
type AgentToken struct {
	Tool    string   `json:"tool"`    // name in bothy secret sources
	Server  string   `json:"server"`  // server of the tool that the token is for
	Service string   `json:"service"` // of the vault, one of the agent's credentials
	Paths   []string `json:"paths"`   // of the service's hosts
}

// AgentElsewhere is a setting of the host that holds the name or the URL of a server.
type AgentElsewhere struct {
	// Variable is the variable that holds it; empty: none.
	Variable string `json:"variable,omitempty"`
	// Services are the services, among the agent's credentials, whose server it names; none: all.
	Services []string `json:"services,omitempty"`
	// File, Directory and Key name a file that may also hold it, as in AgentKey. The file may also be
	// TOML, or JSON with comments. The variable is read first.
	File      string `json:"file,omitempty"`
	Directory string `json:"directory,omitempty"`
	Key       string `json:"key,omitempty"`
	// Also are further files of that kind. A relative path is below the home directory; Directory
	// applies to those in File's directory. In an absolute path a * in the last element matches any
	// characters.
	Also []string `json:"also,omitempty"`
	// Own are the names of the agent's usual servers, which do not count as another server.
	Own []string `json:"own"`
}

// AgentCapture says which members of a server's login response pass to the inside, besides the
// placeholders of the tokens.
type AgentCapture struct {
	Pass []string `json:"pass,omitempty"` // members of the response that are not secret
}

// FormJSON is the form of an endpoint that takes JSON.
const FormJSON = "json"
