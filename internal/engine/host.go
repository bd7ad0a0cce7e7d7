package engine

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/template"
	"github.com/bothy-dev/bothy/spec"
)

// HostVersion stands for the program of the host, where a version is asked for.
const HostVersion = "host"

// TemplateVersion stands for whatever program the sandbox itself finds under the
// agent's name: in its template, or in what somebody put there since.
const TemplateVersion = "template"

// hostFile finds a program of the host as a sandbox finds it.
func hostFile(name string) (string, bool) {
	for dir := range strings.SplitSeq(template.Path, ":") {
		file, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o005 == 0o005 && template.Visible(file) {
			return file, true
		}
	}
	return "", false
}

// onHost refuses a program that a sandbox will not find among the host's.
func onHost(name string) error {
	if _, ok := hostFile(name); ok {
		return nil
	}
	err := spec.Errorf(spec.ErrNotFound, "%s is not among the programs of the host that a sandbox sees", name)
	if own, lookErr := exec.LookPath(name); lookErr == nil {
		return err.WithHint("%s lies outside of them; install it for all users, or let Bothy install it: leave --agent-version out", own)
	}
	return err.WithHint("let Bothy install it: leave --agent-version out")
}

// versionTime is how long a program may take to tell its version.
const versionTime = 10 * time.Second

// hostVersion asks a program of the host which version it is. It is empty where
// there is none, or it does not say.
func hostVersion(ctx context.Context, name string) string {
	file, ok := hostFile(name)
	if !ok {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, "--version")
	cmd.Env, cmd.Dir, cmd.WaitDelay = []string{"PATH=" + template.Path}, "/", time.Second
	said := &beginning{}
	cmd.Stdout = said
	if cmd.Run() != nil {
		return ""
	}
	for word := range strings.FieldsSeq(said.String()) {
		if v := strings.TrimPrefix(word, "v"); agent.Exact(v) {
			return v
		}
	}
	return ""
}
