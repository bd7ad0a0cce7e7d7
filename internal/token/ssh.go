package token

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// findAgent looks where ssh looks for its agent. What is lent is not the agent: the
// gateway asks it, and not everything that it is asked.
func findAgent(s *search) {
	name := s.tool.Variables[0]
	path, ok := s.host.lookup(name)
	if !ok {
		return
	}
	t := Token{
		For: "ssh-agent", From: "$" + name, Value: wire.Value(path), Err: judgeSocket(path),
		Terms: vault.Terms{
			Place: &spec.Place{Kind: spec.PlaceAgent},
			Settings: []spec.Setting{
				{Kind: spec.SettingVariable, Name: name, Text: wire.AgentSocket},
				// The home inside knows no server. A wrong one is sent no login: the host's
				// known_hosts counts for that.
				// Who vouches for those that are looked into is named for images whose ssh
				// does not look there.
				{Kind: spec.SettingVariable, Name: "GIT_SSH_COMMAND", Text: "ssh -o StrictHostKeyChecking=accept-new -o 'GlobalKnownHostsFile=/etc/ssh/ssh_known_hosts " + trust.KnownHosts + "'"},
			},
		},
	}
	s.add(t)
}

// judgeSocket refuses what somebody else may listen at.
func judgeSocket(path string) error {
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
	return nil
}
