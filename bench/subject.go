package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// subject is a way from a client to the server.
type subject struct {
	name  string
	roots string // the file of authorities that a client there trusts
	skip  string // why nothing can be measured with it
	// client is the load generator, to be run there.
	client func(ctx context.Context, args ...string) *exec.Cmd
	// hostile is a client that attacks the gateway; nil: not available.
	hostile func(ctx context.Context, args ...string) *exec.Cmd
	// within runs a function where client may be started; nil means anywhere.
	within func(func() error) error
	// gateway returns the processes between client and server.
	gateway func() []int
}

// measured is the output of the load generator.
type measured struct {
	Count, Bytes int64
	Seconds      float64
	P50          float64 `json:"p50_ms"`
	P99          float64 `json:"p99_ms"`
	cpu          float64 // of the gateway, in seconds
}

// do runs the load generator once.
func (s *subject) do(ctx context.Context, args ...string) (*measured, error) {
	var m measured
	before := s.cpu()
	err := s.inside(func() error {
		text, err := output(s.client(ctx, append(args, "-name", originName, "-roots", s.roots)...))
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &m)
	})
	if err == nil && m.Seconds == 0 {
		err = errors.New("the client measured nothing")
	}
	m.cpu = s.cpu() - before
	return &m, err
}

func (s *subject) inside(f func() error) error {
	if s.within == nil {
		return f()
	}
	return s.within(f)
}

// cpu returns the processor time of the gateway's processes so far, in seconds.
func (s *subject) cpu() (total float64) {
	if s.gateway == nil {
		return 0
	}
	for _, pid := range s.gateway() {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, after, _ := strings.Cut(string(stat), ") ")
		f := strings.Fields(after)
		if len(f) < 13 {
			continue
		}
		for _, ticks := range f[11:13] { // in user mode, in the kernel
			n, _ := strconv.ParseFloat(ticks, 64)
			total += n / 100
		}
	}
	return total
}

// direct returns a client on the kernel's stack with nothing in between.
func (a *arena) direct() *subject {
	return &subject{name: "direct", roots: filepath.Join(a.dir, "origin.pem"), client: func(ctx context.Context, args ...string) *exec.Cmd {
		return command(ctx, cleanEnv(a.dir), a.netload, append([]string{"client"}, args...)...)
	}}
}

// through returns a client that uses a proxy.
func (a *arena) through(name, proxy, roots string, pid int) *subject {
	s := a.direct()
	plain := s.client
	s.name, s.roots = name, filepath.Join(a.dir, roots)
	s.gateway = func() []int { return processes(pid) }
	s.client = func(ctx context.Context, args ...string) *exec.Cmd {
		return plain(ctx, append(args, "-connect", proxy)...)
	}
	return s
}

// kernelClient returns a client on the kernel's stack whose only way out is a gateway of ours.
func (a *arena) kernelClient(ctx context.Context, rules string) (*subject, error) {
	cmd := exec.CommandContext(ctx, a.netload, "gateway", "-policy", rules, "-roots", filepath.Join(a.dir, "origin.pem"))
	first, err := a.start(cmd)
	if err != nil {
		return nil, err
	}
	var g struct{ Namespace, DNS, Authority string }
	if err := json.Unmarshal(first, &g); err != nil {
		return nil, err
	}
	s := a.direct()
	plain := s.client
	s.roots = filepath.Join(a.dir, fmt.Sprintf("gateway-%d.pem", cmd.Process.Pid))
	s.gateway = func() []int { return []int{cmd.Process.Pid} }
	s.within = func(f func() error) error { return inNamespace(g.Namespace, f) }
	s.client = func(ctx context.Context, args ...string) *exec.Cmd {
		return plain(ctx, append(args, "-dns", g.DNS)...)
	}
	return s, a.trust(s.roots, g.Authority)
}

// trust writes a file of authorities: the origin's, and another one.
func (a *arena) trust(file, other string) error {
	origin, err := os.ReadFile(filepath.Join(a.dir, "origin.pem"))
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(origin, other...), 0o644)
}

// inSandbox returns a client in a sandbox. With an address it does not look the server up.
func (a *arena) inSandbox(ctx context.Context, b *bothy, name, rules, addr string) (*subject, error) {
	workspace := filepath.Join(a.dir, name)
	if err := os.Mkdir(workspace, 0o755); err != nil {
		return nil, err
	}
	for file, from := range map[string]string{"netload": a.netload, "roots.pem": filepath.Join(a.dir, "origin.pem")} {
		if err := copyFile(filepath.Join(workspace, file), from); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(b.home, 0o700); err != nil {
		return nil, err
	}
	if err := copyFile(filepath.Join(b.home, "policy.yaml"), rules); err != nil {
		return nil, err
	}
	if err := b.do(ctx, "create", "--quiet", "--name", name, "shell", workspace); err != nil {
		return nil, err
	}
	if err := b.do(ctx, "exec", name, "true"); err != nil {
		return nil, err
	}
	a.stops = append(a.stops, func() error { return b.do(context.Background(), "rm", "--force", name) })
	keeper, err := b.keeper(ctx, name)
	if err != nil {
		return nil, err
	}
	part := func(ctx context.Context, part string, args ...string) *exec.Cmd {
		return b.command(ctx, append([]string{"exec", "-i", name, filepath.Join(workspace, "netload"), part}, args...)...)
	}
	return &subject{
		name: name, roots: filepath.Join(workspace, "roots.pem"),
		gateway: func() []int { return []int{keeper} },
		client: func(ctx context.Context, args ...string) *exec.Cmd {
			if addr != "" {
				args = append(args, "-addr", addr)
			}
			return part(ctx, "client", args...)
		},
		hostile: func(ctx context.Context, args ...string) *exec.Cmd { return part(ctx, "hostile", args...) },
	}, nil
}

// keeper returns the process of a running sandbox.
func (b *bothy) keeper(ctx context.Context, name string) (int, error) {
	text, err := output(b.command(ctx, "inspect", name))
	if err != nil {
		return 0, err
	}
	var sandbox struct {
		Status struct {
			Keeper int `json:"keeper_pid"`
		}
	}
	if err := json.Unmarshal([]byte(text), &sandbox); err != nil {
		return 0, err
	}
	if sandbox.Status.Keeper <= 1 {
		return 0, errors.New("it does not run")
	}
	return sandbox.Status.Keeper, nil
}

// copyFile copies a file with its mode.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
