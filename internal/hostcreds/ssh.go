package hostcreds

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

// findAgent looks for the agent where ssh does. The agent itself is not lent: the gateway
// talks to it, and passes on only some requests.
func findAgent(s *search) {
	s.addAgent("ssh-agent", spec.PlaceAgent,
		// ssh inside has no known hosts of its own. A wrong server gets no login: the
		// gateway checks the host's known_hosts. The file with the authority for inspected
		// servers is named for images whose ssh does not read it by default.
		spec.Setting{Kind: spec.SettingVariable, Name: "GIT_SSH_COMMAND", Text: "ssh -o StrictHostKeyChecking=accept-new -o 'GlobalKnownHostsFile=/etc/ssh/ssh_known_hosts " + trust.KnownHosts + "'"})
}

// findSigner looks for the same agent, limited to signing for git. The defaults of git
// inside configure how commits are signed.
func findSigner(s *search) { s.addAgent("ssh-agent signatures", spec.PlaceSignature) }

// addAgent adds the agent for one use, with these extra settings.
func (s *search) addAgent(purpose string, kind spec.PlaceKind, settings ...spec.Setting) {
	name := s.tool.Variables[0]
	path, ok := s.host.lookup(name)
	if !ok {
		return
	}
	t := Token{
		For: purpose, From: "$" + name, Value: wire.Value(path),
		Terms: vault.Terms{
			Place:    &spec.Place{Kind: kind},
			Settings: append([]spec.Setting{{Kind: spec.SettingVariable, Name: name, Text: wire.AgentSocket}}, settings...),
		},
	}
	if err := judgeSocket(path); err != nil {
		t.Err = &spec.Error{Err: err, Hint: s.tool.Get}
	}
	s.addToken(t)
}

// judgeSocket refuses a socket that another user may own, or that has no listener.
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
		return errors.New("it is not a socket")
	case !ok || int(st.Uid) != os.Geteuid():
		return errors.New("it belongs to another user")
	}
	return checkListener(path)
}

// checkListener reports whether a socket has a listener: the socket of a killed agent still exists.
// It does not block, and sends nothing.
func checkListener(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return errors.New("no agent listens there")
	case errors.Is(err, unix.EAGAIN): // others knock, too
		return nil
	}
	return err
}
