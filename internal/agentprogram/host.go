package agentprogram

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/helper"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/spec"
)

// HostVersion, in the place of a version, means the program of the host.
const HostVersion = "host"

// TemplateVersion means the program that the sandbox itself finds under the agent's name: in its
// template, or installed there since.
const TemplateVersion = "template"

// hostFile finds a program of the host in the same way as a sandbox does.
func hostFile(name string) (string, bool) {
	for dir := range strings.SplitSeq(hostroot.Path, ":") {
		file, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o005 == 0o005 && hostroot.Visible(file) {
			return file, true
		}
	}
	return "", false
}

// OnHost reports whether a sandbox finds an agent's program among the host's.
func OnHost(a *spec.Agent) bool {
	_, ok := hostFile(a.Program)
	return ok
}

// checkOnHost refuses an agent whose program a sandbox will not find among the host's.
func (s *Programs) checkOnHost(a *spec.Agent) error {
	if OnHost(a) {
		return nil
	}
	err := spec.Errorf(spec.ErrNotFound, "%s is not among the programs of the host that a sandbox sees", a.Program)
	own, hint := OutOfSight(a.Program), "let Bothy install it: leave --agent-version out"
	switch {
	case a.Install == nil:
		hint = cmp.Or(agent.HowToGet(a, "SANDBOX"), "install it for all users")
	case own != "":
		hint = fmt.Sprintf("install it for all users; or, if it is a program in one file, show it to the sandbox: --agent-version %s -v %s:%s:ro; or %s",
			TemplateVersion, own, filepath.Join(s.Home(), ".local/bin", a.Program), hint)
	}
	if own != "" {
		hint = own + " lies outside of them; " + hint
	}
	return err.WithHint("%s", hint)
}

// OutOfSight finds a program that the user of the host installed for themselves, and that no
// sandbox sees. It returns the empty string if it finds none.
func OutOfSight(name string) string {
	if _, seen := hostFile(name); seen {
		return ""
	}
	own, err := new(hostpath.Guard).Program(name) // it is named, and not started
	if err != nil {
		return ""
	}
	return own
}

// versionTime is how long a program may take to tell its version.
const versionTime = 10 * time.Second

// hostVersion asks a program of the host for its version. It returns the empty string if the
// program does not exist, or does not report a version.
func (s *Programs) hostVersion(ctx context.Context, name string) string {
	file, ok := hostFile(name)
	paths, err := hostpath.Load(s.Store)
	if !ok || err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	cmd, err := paths.Command(ctx, file, "--version")
	if err != nil {
		return ""
	}
	cmd.Env, cmd.Dir, cmd.WaitDelay = []string{"PATH=" + hostroot.Path}, "/", time.Second
	said := &helper.Beginning{}
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
