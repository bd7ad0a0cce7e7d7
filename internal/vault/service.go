package vault

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Service describes a kind of credential: the hosts it may go to, its place in a request,
// and the shape that programs expect.
type Service struct {
	Name    string
	Aliases []string
	Hosts   []string
	Place   spec.Place
	// Env are the variables in which programs look for it, inside and on the host. The
	// first has precedence.
	Env []string
	// Model says that its hosts serve models, all of them and nothing else.
	Model bool
	// Counted are those of its hosts whose model answers can be read, but not replayed.
	Counted []string
	// Shapes are its possible shapes. A value with none of the prefixes gets a placeholder
	// of the first shape.
	Shapes []Shape
}

// Shape is a prefix, and the alphabet and number of the characters after it.
type Shape struct {
	Prefix   string
	Length   int // with the prefix
	Alphabet string
}

// Alphabets of placeholders. They leave out '-' and '_' even where a token may have them;
// no program misses them.
const (
	base62    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	hexdigits = "0123456789abcdef"
)

var bearer = spec.Place{Kind: spec.PlaceBearer}

// Services are the known kinds. Hosts are only those that need the credential: any other
// host that gets it can use it.
var Services = []Service{
	{
		Name: "anthropic", Hosts: []string{"api.anthropic.com:443"},
		Place: spec.Place{Kind: spec.PlaceHeader, Name: "x-api-key"}, Env: []string{"ANTHROPIC_API_KEY"},
		Model:  true,
		Shapes: []Shape{{"sk-ant-api03-", 108, base62}},
	},
	{
		Name: "claude", Hosts: []string{"api.anthropic.com:443"},
		Place: bearer, Env: []string{"CLAUDE_CODE_OAUTH_TOKEN"},
		Model:  true,
		Shapes: []Shape{{"sk-ant-oat01-", 108, base62}, {"sk-ant-ort01-", 108, base62}},
	},
	{
		// Any bearer token for the agent; one of the kinds above counts as that.
		Name: "anthropic-token", Hosts: []string{"api.anthropic.com:443"},
		Place: bearer, Env: []string{"ANTHROPIC_AUTH_TOKEN"},
		Model:  true,
		Shapes: []Shape{{"", 64, base62}},
	},
	{
		Name: "openai", Aliases: []string{"codex"}, Hosts: []string{"api.openai.com:443"},
		Place: bearer, Env: []string{"OPENAI_API_KEY", "CODEX_API_KEY"},
		Model:  true,
		Shapes: []Shape{{"sk-proj-", 164, base62}, {"sk-svcacct-", 167, base62}, {"sk-", 51, base62}},
	},
	{
		Name: "chatgpt", Hosts: []string{"chatgpt.com:443"},
		Place:  bearer,
		Model:  true,
		Shapes: []Shape{{"", 64, base62}},
	},
	{
		Name: "google", Aliases: []string{"gemini"}, Hosts: []string{"generativelanguage.googleapis.com:443"},
		Place: spec.Place{Kind: spec.PlaceHeader, Name: "x-goog-api-key"}, Env: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
		Model:  true,
		Shapes: []Shape{{"AIza", 39, base62}},
	},
	{
		// Gemini Code Assist, for users who logged in with a Google account. The second
		// host checks a token, which the agent asks for at every start.
		Name: "code-assist", Hosts: []string{"cloudcode-pa.googleapis.com:443", "oauth2.googleapis.com:443"},
		Place:   bearer,
		Counted: []string{"cloudcode-pa.googleapis.com:443"},
		Shapes:  []Shape{{"ya29.", 220, base62}, {"1//", 103, base62}},
	},
	{
		Name: "github", Hosts: []string{"api.github.com:443", "uploads.github.com:443"},
		Place: bearer, Env: []string{"GH_TOKEN", "GITHUB_TOKEN"},
		Shapes: githubShapes,
	},
	{
		// Any kind of token but the classic personal one.
		Name: "copilot", Hosts: []string{
			"api.github.com:443", "api.githubcopilot.com:443", "api.individual.githubcopilot.com:443",
			"api.business.githubcopilot.com:443", "api.enterprise.githubcopilot.com:443",
		},
		Place: bearer, Env: []string{"COPILOT_GITHUB_TOKEN"},
		Counted: []string{
			"api.githubcopilot.com:443", "api.individual.githubcopilot.com:443",
			"api.business.githubcopilot.com:443", "api.enterprise.githubcopilot.com:443",
		},
		Shapes: []Shape{{"github_pat_", 93, base62}, {"gho_", 40, base62}, {"ghu_", 40, base62}},
	},
	{
		Name: "github-git", Hosts: []string{"github.com:443"},
		Place:  spec.Place{Kind: spec.PlaceBasic},
		Shapes: githubShapes,
	},
	{
		Name: "gitlab", Hosts: []string{"gitlab.com:443"},
		Place: spec.Place{Kind: spec.PlaceHeader, Name: "private-token"}, Env: []string{"GITLAB_TOKEN"},
		Shapes: []Shape{{"glpat-", 26, base62}},
	},
	{
		Name: "npm", Hosts: []string{"registry.npmjs.org:443"},
		Place: bearer, Env: []string{"NPM_TOKEN", "NODE_AUTH_TOKEN"},
		Shapes: []Shape{{"npm_", 40, base62}},
	},
	{
		Name: "pypi", Hosts: []string{"upload.pypi.org:443"},
		Place: spec.Place{Kind: spec.PlaceBasic, User: "__token__"}, Env: []string{"TWINE_PASSWORD", "UV_PUBLISH_TOKEN"},
		Shapes: []Shape{{"pypi-", 179, base62}},
	},
	{
		Name: "huggingface", Aliases: []string{"hf"}, Hosts: []string{"huggingface.co:443", "router.huggingface.co:443"},
		Place: bearer, Env: []string{"HF_TOKEN"},
		Counted: []string{"router.huggingface.co:443"},
		Shapes:  []Shape{{"hf_", 37, base62}},
	},
	{
		Name: "openrouter", Hosts: []string{"openrouter.ai:443"},
		Place: bearer, Env: []string{"OPENROUTER_API_KEY"},
		Model:  true,
		Shapes: []Shape{{"sk-or-v1-", 73, hexdigits}},
	},
	{
		Name: "groq", Hosts: []string{"api.groq.com:443"},
		Place: bearer, Env: []string{"GROQ_API_KEY"},
		Model:  true,
		Shapes: []Shape{{"gsk_", 56, base62}},
	},
	{
		Name: "mistral", Hosts: []string{"api.mistral.ai:443"},
		Place: bearer, Env: []string{"MISTRAL_API_KEY"},
		Model:  true,
		Shapes: []Shape{{"", 32, base62}},
	},
	{
		Name: "xai", Hosts: []string{"api.x.ai:443"},
		Place: bearer, Env: []string{"XAI_API_KEY"},
		Model:  true,
		Shapes: []Shape{{"xai-", 84, base62}},
	},
}

// githubShapes: the fine-grained kind has an underscore in its middle; no program checks that.
var githubShapes = []Shape{
	{"ghp_", 40, base62}, {"github_pat_", 93, base62}, {"gho_", 40, base62}, {"ghu_", 40, base62}, {"ghs_", 40, base62},
}

// FindService returns the service of a name or alias; nil if none has it.
func FindService(name string) *Service {
	for i, s := range Services {
		if s.Name == name || slices.Contains(s.Aliases, name) {
			return &Services[i]
		}
	}
	return nil
}

// GuessService returns the service of a secret, guessed by its name or by the variable it
// comes from; "" if neither tells.
func GuessService(name string, source Source) string {
	if s := FindService(strings.ToLower(name)); s != nil {
		return s.Name
	}
	for _, s := range Services {
		if slices.Contains(s.Env, name) || source.Variable != "" && slices.Contains(s.Env, source.Variable) {
			return s.Name
		}
	}
	return ""
}

// SortService separates services with the same variables by the value: users often put a
// subscription's token where an API key is expected.
func SortService(name string, value []byte) string {
	s := FindService(name)
	if s == nil || s.shapeOf(value) != nil {
		return name
	}
	for _, other := range Services {
		if slices.Equal(other.Hosts, s.Hosts) && other.shapeOf(value) != nil {
			return other.Name
		}
	}
	return name
}

// Takes reports whether a service accepts a value of another one, judging by the value's prefix. It does
// not if only the other service knows the prefix.
func Takes(service, other string, value []byte) bool {
	s, o := FindService(service), FindService(other)
	return s != nil && (s.shapeOf(value) != nil || o == nil || o.shapeOf(value) == nil)
}

func (s *Service) shapeOf(value []byte) *Shape {
	for i, shape := range s.Shapes {
		if shape.Prefix != "" && strings.HasPrefix(string(value), shape.Prefix) {
			return &s.Shapes[i]
		}
	}
	return nil
}
