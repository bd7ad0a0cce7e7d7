package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// proxy is a program that others put between a sandbox and the network.
type proxy struct {
	name string
	// begin starts it, tunnelling or looking into TLS with the authority "proxy", and returns its
	// address.
	begin func(ctx context.Context, a *arena, inspect bool) (cmd *exec.Cmd, addr string, err error)
}

var proxies = []proxy{{"mitmproxy", beginMitmproxy}, {"squid", beginSquid}}

// begun starts a proxy, or returns a subject with the reason why it cannot.
func (a *arena) begun(ctx context.Context, p proxy, inspect bool) *subject {
	fail := func(err error) *subject { return &subject{name: p.name, skip: err.Error()} }
	cmd, addr, err := p.begin(ctx, a, inspect)
	if err != nil {
		return fail(err)
	}
	log, err := os.Create(filepath.Join(a.dir, fmt.Sprintf("%s-%t.log", p.name, inspect)))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	a.stops = append(a.stops, func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // an interrupt is not an error
		return nil
	})
	if err := listening(ctx, addr); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fail(fmt.Errorf("%w: %s", err, lastLines(string(text))))
	}
	return a.through(p.name, addr, rootsOf(inspect), cmd.Process.Pid)
}

// port returns a different port for each proxy.
func port(base int, inspect bool) int {
	if inspect {
		return base + 1
	}
	return base
}

// srtVersion is the measured version. srtScript starts only its proxy, which chooses port and
// password itself.
const (
	srtVersion = "0.0.78"
	srtScript  = `
import { SandboxManager } from '@anthropic-ai/sandbox-runtime'
const [dir, inspect] = process.argv.slice(2)
const network = { allowedDomains: ['` + originName + `', '` + originAddr + `'], deniedDomains: [] }
if (inspect === 'true') network.tlsTerminate = {
  caCertPath: dir + '/proxy.pem', caKeyPath: dir + '/proxy.key' }
await SandboxManager.initialize({ network, filesystem: { denyRead: [], allowWrite: [], denyWrite: [] } })
console.log(JSON.stringify({ port: SandboxManager.getProxyPort(), token: SandboxManager.getProxyAuthToken() }))
process.stdin.resume().on('end', () => process.exit(0))
`
)

// installSRT installs the package. It must run before the arena exists, which has no way out.
func (b *bench) installSRT(ctx context.Context) error {
	dir := filepath.Join(b.work, "srt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "start.mjs"), []byte(srtScript), 0o644); err != nil {
		return err
	}
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is not installed", name)
		}
	}
	cmd := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "@anthropic-ai/sandbox-runtime@"+srtVersion)
	cmd.Dir = dir
	_, err := output(cmd)
	return err
}

// srt starts srt's proxy. Its sandboxes have one more relay in front of it, which is not measured.
func (a *arena) srt(ctx context.Context, dir string, inspect bool) *subject {
	cmd := exec.CommandContext(ctx, "node", filepath.Join(dir, "start.mjs"), a.dir, fmt.Sprint(inspect))
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+filepath.Join(a.dir, "origin.pem"))
	first, err := a.start(cmd)
	if err != nil {
		return &subject{name: srtName, skip: err.Error()}
	}
	var p struct {
		Port  int
		Token string
	}
	if err := json.Unmarshal(first, &p); err != nil {
		return &subject{name: srtName, skip: err.Error()}
	}
	s := a.through(srtName, fmt.Sprintf("127.0.0.1:%d", p.Port), rootsOf(inspect), cmd.Process.Pid)
	plain := s.client
	s.client = func(ctx context.Context, args ...string) *exec.Cmd {
		return plain(ctx, append(args, "-auth", "srt:"+p.Token)...)
	}
	return s
}

// srtName is the peer in the targets.
const srtName = "srt"

// rootsOf returns the file of authorities that a proxy's clients trust.
func rootsOf(inspect bool) string {
	if inspect {
		return "proxy.pem"
	}
	return "origin.pem"
}

// beginMitmproxy starts mitmdump. If it is to tunnel, it gets the option not to look into anything.
func beginMitmproxy(ctx context.Context, a *arena, inspect bool) (*exec.Cmd, string, error) {
	if _, err := exec.LookPath("mitmdump"); err != nil {
		return nil, "", errors.New("not installed")
	}
	home := filepath.Join(a.dir, fmt.Sprintf("mitmproxy-%t", inspect))
	if err := os.Mkdir(home, 0o755); err != nil {
		return nil, "", err
	}
	if err := copyFile(filepath.Join(home, "mitmproxy-ca.pem"), filepath.Join(a.dir, "proxy-both.pem")); err != nil {
		return nil, "", err
	}
	n := port(18080, inspect)
	args := []string{
		"--quiet", "--set", "confdir=" + home, "--listen-host", "127.0.0.1", "--listen-port", fmt.Sprint(n),
		"--set", "ssl_verify_upstream_trusted_ca=" + filepath.Join(a.dir, "origin.pem"),
		"--set", "stream_large_bodies=1m", "--set", "connection_strategy=lazy",
	}
	if !inspect {
		args = append(args, "--ignore-hosts", ".*")
	}
	return command(ctx, cleanEnv(home), "mitmdump", args...), fmt.Sprintf("127.0.0.1:%d", n), nil
}

// squidConf is the minimal configuration that tunnels, or looks into everything.
const squidConf = `http_port 127.0.0.1:%d%s
http_access allow all
cache deny all
cache_mem 0
access_log none
cache_log %s/cache.log
pid_filename none
shutdown_lifetime 0
max_filedescriptors 4096
workers 1
visible_hostname bench
`

func beginSquid(ctx context.Context, a *arena, inspect bool) (*exec.Cmd, string, error) {
	if _, err := exec.LookPath("squid"); err != nil {
		return nil, "", errors.New("not installed")
	}
	home := filepath.Join(a.dir, fmt.Sprintf("squid-%t", inspect))
	if err := os.Mkdir(home, 0o755); err != nil {
		return nil, "", err
	}
	n := port(18090, inspect)
	bump, more := "", ""
	if inspect {
		bump = fmt.Sprintf(" ssl-bump tls-cert=%s tls-key=%s generate-host-certificates=on", filepath.Join(a.dir, "proxy.pem"), filepath.Join(a.dir, "proxy.key"))
		db := filepath.Join(home, "db")
		const certgen = "/usr/lib/squid/security_file_certgen"
		if _, err := output(exec.CommandContext(ctx, certgen, "-c", "-s", db, "-M", "4MB")); err != nil {
			return nil, "", fmt.Errorf("it cannot look into TLS: %w", err)
		}
		more = fmt.Sprintf("sslcrtd_program %s -s %s -M 4MB\nsslcrtd_children 2\nssl_bump bump all\ntls_outgoing_options cafile=%s\n",
			certgen, db, filepath.Join(a.dir, "origin.pem"))
	}
	conf := filepath.Join(home, "squid.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, squidConf+more, n, bump, home), 0o644); err != nil {
		return nil, "", err
	}
	// Squid changes from root to a user of its own, who writes here.
	if _, err := output(exec.CommandContext(ctx, "chown", "-R", "proxy", home)); err != nil {
		return nil, "", err
	}
	service := fmt.Sprintf("bench%d", n) // names its shared memory
	return command(ctx, cleanEnv(home), "squid", "-N", "-n", service, "-f", conf), fmt.Sprintf("127.0.0.1:%d", n), nil
}
