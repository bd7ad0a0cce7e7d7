package token

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// findAgent looks where ssh looks for its agent. What is lent is not the agent: the
// gateway asks it, and not everything that it is asked.
func findAgent(s *search) {
	s.addAgent("ssh-agent", spec.PlaceAgent,
		// The home inside knows no server. A wrong one is sent no login: the host's
		// known_hosts counts for that.
		// Who vouches for those that are looked into is named for images whose ssh
		// does not look there.
		spec.Setting{Kind: spec.SettingVariable, Name: "GIT_SSH_COMMAND", Text: "ssh -o StrictHostKeyChecking=accept-new -o 'GlobalKnownHostsFile=/etc/ssh/ssh_known_hosts " + trust.KnownHosts + "'"})
}

// findSigner looks for the same agent, which is to sign for git and nothing else. How commits
// are signed is among the defaults of git inside.
func findSigner(s *search) { s.addAgent("ssh-agent signatures", spec.PlaceSignature) }

// addAgent notes the agent, for a use that has such settings besides.
func (s *search) addAgent(purpose string, kind spec.PlaceKind, settings ...spec.Setting) {
	name := s.tool.Variables[0]
	path, ok := s.host.lookup(name)
	if !ok {
		return
	}
	t := Token{
		For: purpose, From: "$" + name, Value: wire.Value(path), Err: s.unusable(judgeSocket(path)),
		Terms: vault.Terms{
			Place:    &spec.Place{Kind: kind},
			Settings: append([]spec.Setting{{Kind: spec.SettingVariable, Name: name, Text: wire.AgentSocket}}, settings...),
		},
	}
	s.add(t)
}

// unusable tells of an agent that cannot be asked how to come by one.
func (s *search) unusable(err error) error {
	if err != nil {
		err = &spec.Error{Err: err, Hint: s.tool.Get}
	}
	return err
}

// judgeSocket refuses what somebody else may listen at, and where nobody listens.
func judgeSocket(path string) error {
	if err := hostpath.Answers(filepath.Dir(path)); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("it is no socket")
	case !ok || int(st.Uid) != os.Geteuid():
		return errors.New("it belongs to another user")
	}
	return knock(path)
}

// knock says whether somebody listens at a socket: that of an agent that was killed is there
// still. It waits for nobody, and asks nothing.
func knock(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return errors.New("no agent listens there any more")
	case errors.Is(err, unix.EAGAIN): // others knock, too
		return nil
	}
	return err
}
