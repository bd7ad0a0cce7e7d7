// Package sshsetup lets the person's SSH clients and editors find sandboxes: it writes SSH configuration of
// Bothy's own, and includes that from the person's.
package sshsetup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/passwd"
	"github.com/bothy-dev/bothy/internal/sshserver"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Setup is the SSH configuration for one state directory.
type Setup struct {
	store   *store.Store
	paths   *hostpath.Guard
	program string // path of bothy
	home    string
}

// Result describes a setup.
type Result struct {
	Config     string `json:"config"`                // the person's configuration
	Include    string `json:"include"`               // the line in it
	Changed    bool   `json:"changed"`               // whether the call changed the person's configuration
	HostKey    string `json:"host_key,omitempty"`    // fingerprint of the sandboxes' key
	KnownHosts string `json:"known_hosts,omitempty"` // the file with that key, for SSH clients
	Note       string `json:"note,omitempty"`        // a reason why SSH clients may not read the configuration
}

// For returns the setup of the caller.
func For(e *engine.Engine) (*Setup, error) {
	s := &Setup{store: e.Store}
	var err error
	if s.paths, err = e.Paths(); err != nil {
		return nil, err
	}
	if s.program, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	s.home, err = store.Home()
	return s, err
}

func (s *Setup) person() string     { return filepath.Join(s.home, ".ssh", "config") }
func (s *Setup) ownConfig() string  { return filepath.Join(s.store.SSH(), "config") }
func (s *Setup) knownHosts() string { return filepath.Join(s.store.SSH(), "known_hosts") }
func (s *Setup) include() string    { return `Include "` + s.ownConfig() + `"` }

// Apply writes Bothy's configuration, and includes it at the top of the person's. It changes nothing that is
// there already.
func (s *Setup) Apply() (Result, error) {
	if err := s.checkPaths(); err != nil {
		return Result{}, err
	}
	key, err := sshserver.HostKey(s.store)
	if err != nil {
		return Result{}, err
	}
	unlock, err := s.takeLocks()
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	known := "*" + sshserver.Domain + " " + string(ssh.MarshalAuthorizedKey(key.PublicKey()))
	if err := writeChanged(s.knownHosts(), known); err != nil {
		return Result{}, err
	}
	if err := writeChanged(s.ownConfig(), s.configText()); err != nil {
		return Result{}, err
	}
	r := s.result()
	r.HostKey, r.KnownHosts = ssh.FingerprintSHA256(key.PublicKey()), s.knownHosts()
	r.Changed, err = s.editPerson(func(text string) string { return withInclude(text, s.include()) },
		"add this as its first line: "+s.include())
	return r, err
}

// Remove undoes Apply. The host key stays: with a new one, clients that know the old one would refuse the
// sandboxes.
func (s *Setup) Remove() (Result, error) {
	r := s.result()
	unlock, err := s.takeLocks()
	if errors.Is(err, fs.ErrNotExist) { // this state directory was not set up
		unlock, err = s.lockHome()
	}
	if err != nil {
		return r, err
	}
	defer unlock()
	r.Changed, err = s.editPerson(func(text string) string { return withoutInclude(text, s.include()) },
		"remove this line from it: "+s.include())
	if err != nil {
		return r, err
	}
	for _, path := range []string{s.ownConfig(), s.knownHosts()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
	}
	return r, nil
}

// Check returns an error unless the setup was applied, from this state directory.
func (s *Setup) Check() error {
	text, err := s.readPerson()
	if _, missing := os.Lstat(s.ownConfig()); err != nil || missing != nil || !includes(text, s.include()) {
		return spec.Errorf(spec.ErrConflict, "SSH clients do not find sandboxes yet").
			WithHint("bothy setup ssh writes the configuration for them")
	}
	return nil
}

func (s *Setup) result() Result {
	r := Result{Config: s.person(), Include: s.include()}
	accounts, err := passwd.Read()
	if err != nil {
		return r
	}
	for _, a := range accounts {
		if a.UID == os.Getuid() && a.Home != s.home {
			r.Note = fmt.Sprintf("HOME is %s, but ssh reads %s/.ssh/config: include the same file there, or use ssh -F %s", s.home, a.Home, s.person())
			break
		}
	}
	return r
}

// odd are the characters that mean something in SSH's configuration, or to the shell that ssh starts.
const odd = "\"'`\\$%*?[]{}#"

// checkPaths refuses paths that cannot be written into the configuration, and a program that a sandbox may have
// written: ssh would run it on the host.
func (s *Setup) checkPaths() error {
	for _, path := range []string{s.program, s.store.Path()} {
		if strings.ContainsAny(path, odd) || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return spec.Errorf(spec.ErrUsage, "%q cannot be written into SSH's configuration", path).
				WithHint("use a path without any of %s", odd)
		}
	}
	if s.paths.WrittenAt(s.program) {
		return spec.Errorf(spec.ErrDenied, "%s is not written into SSH's configuration: a sandbox may have written it", s.program).
			WithHint("install bothy in a directory that no sandbox writes to")
	}
	return nil
}

// configText returns Bothy's configuration. A host name with an apostrophe is not one of ours: it would end
// the word in the command.
func (s *Setup) configText() string {
	command := "'" + s.program + "' ssh-proxy -- '%h'"
	if s.store.Path() != filepath.Join(s.home, ".local", "share", "bothy") {
		command = "/usr/bin/env 'BOTHY_HOME=" + s.store.Path() + "' " + command
	}
	return `# Written by "bothy setup ssh", which replaces changes. "bothy setup ssh --remove" removes it.
Host *` + sshserver.Domain + ` "!*'*"
    ProxyCommand ` + command + `
    UserKnownHostsFile "` + s.knownHosts() + `"
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    HostKeyAlgorithms ssh-ed25519
    CheckHostIP no
    UpdateHostKeys no
    PreferredAuthentications none
    PubkeyAuthentication no
    User bothy
    ForwardAgent no
    ForwardX11 no
`
}

// writeChanged writes a file of ours, unless it has this text.
func writeChanged(path, text string) error {
	old, err := store.ReadSmall(path)
	if err == nil && bytes.Equal(old, []byte(text)) {
		return nil
	}
	return store.WriteFile(path, []byte(text))
}
