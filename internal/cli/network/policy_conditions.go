package network

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/rpccall"
	"github.com/bothy-dev/bothy/spec"
)

// conditionFlags are the flags that limit a rule to certain HTTP requests or to git over SSH, and
// those that say whether the gateway inspects the connections.
type conditionFlags struct {
	methods, paths, headers []string
	calls                   []string
	maxBody, maxUpload      string
	websocket               bool
	git                     []string
	push                    bool
	user                    string
	inspect, passthrough    bool
}

// usualCalls are completions for the shell: MCP needs the first four of them.
var usualCalls = []string{"initialize", "ping", "notifications/*", "tools/list", rpccall.ToolCall, rpccall.Answer}

// conditionNames are the names of the flags.
var conditionNames = []string{"method", "path", "header", "rpc", "max-body", "max-upload", "websocket", "git", "push", "user", "inspect", "passthrough"}

func (f *conditionFlags) addFlags(c *cobra.Command, action policy.Action) {
	fs := c.Flags()
	fs.StringArrayVar(&f.methods, "method", nil, "only HTTP requests with this method; repeatable")
	fs.StringArrayVar(&f.paths, "path", nil, "only HTTP requests with this path, e.g. /repos/acme/**; repeatable")
	fs.StringArrayVar(&f.headers, "header", nil, `only HTTP requests with this header, e.g. "accept: text/html", or "x-trace: *" for any value; repeatable`)
	cmdline.CompleteFlag(c, "method", cmdline.OneOf("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
	cmdline.CompleteFlag(c, "header", cmdline.OneOf("accept:", "content-type:", "origin:", "user-agent:"))
	if action == policy.Allow {
		fs.StringArrayVar(&f.calls, "rpc", nil, `only bodies of JSON-RPC that call this method, e.g. tools/list or "tools/call search_*"; repeatable`)
		cmdline.CompleteFlag(c, "rpc", cmdline.OneOf(usualCalls...))
		fs.StringVar(&f.maxBody, "max-body", "", "only HTTP requests whose body has at most so many bytes, e.g. 10MiB")
		fs.StringVar(&f.maxUpload, "max-upload", "", "let a sandbox send at most so many bytes, as long as it exists, e.g. 50MiB")
		fs.BoolVar(&f.websocket, "websocket", false, "let WebSocket through, on which nothing is judged")
		fs.StringArrayVar(&f.git, "git", nil, "only git over SSH, with this repository, e.g. acme/app, acme/*; repeatable")
		fs.BoolVar(&f.push, "push", false, "with --git: let it push, too")
		fs.StringVar(&f.user, "user", "", "with --git: it logs in as this user (default git)")
		fs.BoolVar(&f.inspect, "inspect", false, "look into its connections although no condition needs it")
		fs.BoolVar(&f.passthrough, "passthrough", false, "never look into them, for clients that pin certificates")
	}
}

// conditions returns the conditions of the flags. The rule's Check validates them.
func (f *conditionFlags) conditions(cmd *cobra.Command) (policy.Conditions, error) {
	c := policy.Conditions{Methods: f.methods, Paths: f.paths, RPC: f.calls, WebSocket: f.websocket, Git: f.git, Push: f.push, User: f.user}
	for _, text := range f.headers {
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return c, spec.Errorf(spec.ErrUsage, "--header %q has no colon", text).WithHint(`write --header "accept: text/html", or "accept: *" for any value`)
		}
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := c.Headers[name]; twice {
			return c, spec.Errorf(spec.ErrUsage, "--header %s is given twice", name).WithHint("a rule asks for one value of a header: write two rules")
		}
		if c.Headers == nil {
			c.Headers = map[string]string{}
		}
		c.Headers[name] = strings.TrimSpace(value)
	}
	var err error
	c.MaxBody, err = sizeFlag(cmd, "max-body", f.maxBody)
	return c, err
}

// upload returns the upload limit of the rules; 0 means none is given.
func (f *conditionFlags) upload(cmd *cobra.Command) (int64, error) {
	return sizeFlag(cmd, "max-upload", f.maxUpload)
}

// sizeFlag parses a size in the form of policy files, if the flag is given.
func sizeFlag(cmd *cobra.Command, name, text string) (int64, error) {
	if !cmd.Flags().Changed(name) {
		return 0, nil
	}
	n, err := policy.ParseSize(text)
	if err != nil {
		return 0, &spec.Error{Class: spec.ErrUsage, Op: "--" + name, Err: err, Hint: spec.Hint(err)}
	}
	return n, nil
}
