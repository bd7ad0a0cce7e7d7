package agents

// cli is an agent, and how a user with a key runs it without a terminal.
type cli struct {
	name    string
	version string // the version that the tests are written for
	// The variable and the prefix of its key, the host that gets it, and its service.
	variable, prefix, host, service string
	place                           string   // the header line of a request up to the key
	flags                           []string // of bothy run
	besides                         string   // another request that its presets allow: "GET HOST /PATH"
	quiet                           bool     // its output has no token counts; its stored transcript has
	model                           string   // a model that it can be told to use
	project                         string   // a project file for it, if it needs one: NAME TEXT
	// command returns the arguments after "--" that give it a prompt of one word.
	command func(prompt string) []string
}

var (
	claude = cli{
		name: "claude", model: "claude-sonnet-4-5", version: "2.1.332",
		variable: "ANTHROPIC_API_KEY", prefix: "sk-ant-api03-", host: "api.anthropic.com", service: "anthropic",
		place: "x-api-key: ",
		command: func(prompt string) []string {
			return []string{"-p", prompt, "--output-format", "stream-json", "--verbose"}
		},
	}
	codex = cli{
		name: "codex", model: "gpt-5.1-codex", version: "0.171.0",
		variable: "OPENAI_API_KEY", prefix: "sk-proj-", host: "api.openai.com", service: "openai",
		place: "Authorization: Bearer ",
		command: func(prompt string) []string {
			return []string{"codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "--json", prompt}
		},
	}
	gemini = cli{
		name: "gemini", model: "gemini-2.5-flash", version: "0.61.0",
		variable: "GEMINI_API_KEY", prefix: "AIza", host: "generativelanguage.googleapis.com", service: "google",
		place:   "x-goog-api-key: ",
		command: func(prompt string) []string { return []string{"-p", prompt, "-o", "stream-json"} },
	}
	opencode = cli{
		name: "opencode", model: "anthropic/claude-haiku-4-5", version: "1.18.33",
		variable: "ANTHROPIC_API_KEY", prefix: "sk-ant-api03-", host: "api.anthropic.com", service: "anthropic",
		place:   "x-api-key: ",
		besides: "GET models.opencode.ai /",
		project: `opencode.json {"permission":{"bash":"ask","edit":"ask"}}`,
		command: func(prompt string) []string {
			return []string{"opencode", "run", "--auto", "--format", "json", "-m", "anthropic/claude-sonnet-4-5", prompt}
		},
	}
	// copilot asks its maker's servers, unless it is pointed to another provider, as by a mock.
	copilot = cli{
		name: "copilot", version: "1.0.102",
		variable: "GH_TOKEN", prefix: "ghp_", host: "api.anthropic.com", service: "github",
		besides: "GET api.github.com /copilot_internal/",
		quiet:   true,
		command: func(prompt string) []string {
			return []string{"copilot", "--allow-all", "--no-ask-user", "--output-format", "json", "-p", prompt}
		},
	}
)
