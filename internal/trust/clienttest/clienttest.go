// Package clienttest lists real programs that speak TLS, and the answers that they need from a server.
// The exit status of each tells whether it trusted the server.
package clienttest

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Client is a program, and its arguments for talking to a server.
type Client struct {
	Name string
	// args is its command line. URL stands for the server's URL, SERVER for its host and port.
	args []string
	// probe exits with success if the program can run. Without a probe, the
	// program only has to exist.
	probe []string
	// Files are files for its working directory.
	Files map[string]string
	// Alone are variables, each of which is sufficient for the client.
	Alone []string
	// Bundle is set if the distribution's bundle is sufficient, on Debian.
	Bundle bool
}

// Command is the client's command line for the server at a host and port.
func (c Client) Command(server string) []string {
	var out []string
	for _, a := range c.args {
		out = append(out, strings.NewReplacer("URL", "https://"+server, "SERVER", server).Replace(a))
	}
	return out
}

// Probe is a command line that succeeds if the client can run.
func (c Client) Probe() []string {
	if len(c.probe) > 0 {
		return c.probe
	}
	return []string{"sh", "-c", "command -v " + c.args[0]}
}

// Missing returns why this machine cannot run the client, or "" if it can.
func (c Client) Missing(ctx context.Context) string {
	probe := c.Probe()
	if out, err := exec.CommandContext(ctx, probe[0], probe[1:]...).CombinedOutput(); err != nil {
		return fmt.Sprintf("%s: %v: %s", strings.Join(probe, " "), err, out)
	}
	return ""
}

const fetch = `fetch("URL/").then(r => r.text()).then(console.log, e => { console.error(e); process.exit(1) })`

// Clients lists the programs that the tests run.
var Clients = []Client{
	{Name: "curl", args: []string{"curl", "-sSf", "URL/"}, Alone: []string{"CURL_CA_BUNDLE", "SSL_CERT_FILE"}, Bundle: true},
	{Name: "wget", args: []string{"wget", "-qO-", "-t1", "URL/"}, Bundle: true},
	{Name: "git", args: []string{"git", "ls-remote", "URL/repo.git"}, Alone: []string{"GIT_SSL_CAINFO"}, Bundle: true},
	{
		Name: "openssl", Alone: []string{"SSL_CERT_FILE"}, probe: []string{"openssl", "version"},
		args: []string{"sh", "-c", `printf 'GET / HTTP/1.1\r\nHost: SERVER\r\nConnection: close\r\n\r\n' | openssl s_client -quiet -verify_return_error -connect SERVER`},
	},
	{Name: "node", args: []string{"node", "-e", fetch}, probe: []string{"node", "-e", "fetch"}, Alone: []string{"NODE_EXTRA_CA_CERTS"}},
	{Name: "npm", args: []string{"npm", "ping", "--fetch-retries=0", "--globalconfig=/dev/null", "--registry", "URL/"}, Alone: []string{"NODE_EXTRA_CA_CERTS"}},
	{Name: "bun", args: []string{"bun", "-e", fetch}, Alone: []string{"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"}},
	{Name: "deno", args: []string{"deno", "eval", strings.Replace(fetch, "process.exit", "Deno.exit", 1)}, Alone: []string{"DENO_CERT"}},
	{
		Name: "python", Alone: []string{"SSL_CERT_FILE"},
		args: []string{"python3", "-c", `import urllib.request; print(urllib.request.urlopen("URL/").read())`},
	},
	{
		Name: "requests", Alone: []string{"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}, probe: []string{"python3", "-c", "import requests"},
		args: []string{"python3", "-c", `import requests; print(requests.get("URL/").text)`},
	},
	{
		Name: "pip", Alone: []string{"PIP_CERT"}, probe: []string{"python3", "-m", "pip", "--version"},
		args: []string{"python3", "-m", "pip", "download", "--retries=0", "--no-deps", "--no-cache-dir", "-i", "URL/simple", "demo"},
	},
	{
		Name: "go", Alone: []string{"SSL_CERT_FILE"}, Bundle: true, Files: map[string]string{"go.mod": "module client.test\n"},
		args:  []string{"env", "GOPROXY=URL", "GONOSUMDB=*", "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod", "go", "list", "-m", "-versions", "example.com/demo"},
		probe: []string{"go", "version"},
	},
	{
		Name: "java", Alone: []string{"JAVA_TOOL_OPTIONS"}, probe: []string{"javac", "-version"},
		args: []string{"java", "Get.java", "URL/"},
		Files: map[string]string{"Get.java": `class Get {
	public static void main(String[] args) throws Exception {
		System.out.write(java.net.URI.create(args[0]).toURL().openStream().readAllBytes());
	}
}
`},
	},
	{
		Name: "cargo", Alone: []string{"CARGO_HTTP_CAINFO", "SSL_CERT_FILE"}, probe: []string{"cargo", "info", "--help"}, // knows sparse indexes
		args: []string{"cargo", "search", "--index", "sparse+URL/index/", "demo"},
	},
	{
		Name: "perl", Alone: []string{"SSL_CERT_FILE"}, probe: []string{"perl", "-MIO::Socket::SSL", "-e1"},
		args: []string{"perl", "-MHTTP::Tiny", "-e", `my $r = HTTP::Tiny->new(verify_SSL => 1)->get("URL/"); die $r->{content} unless $r->{success}`},
	},
	{
		Name: "ruby", Alone: []string{"SSL_CERT_FILE"},
		args: []string{"ruby", "-ropen-uri", "-e", `puts URI.open("URL/").read`},
	},
	{
		Name: "php", Alone: []string{"SSL_CERT_FILE"}, probe: []string{"php", "-r", "exit(extension_loaded('openssl') ? 0 : 1);"},
		args: []string{"php", "-r", `exit(file_get_contents("URL/") === false ? 1 : 0);`},
	},
}
