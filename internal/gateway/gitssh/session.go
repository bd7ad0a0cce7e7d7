package gitssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/bothy-dev/bothy/internal/policy/gitrepo"
)

// session is the session that a command runs in.
type session struct {
	*connection
	ch      ssh.Channel
	version string // of git's protocol, from the variable; empty: not given
	begun   bool

	rest     []ssh.Signer // remaining keys, after one did not sign
	unsigned error        // why the last key did not sign
}

// statusRefused is the exit status of a command that did not run. It is git's own status for fatal
// errors.
const statusRefused = 128

// serveRequests answers requests within the session until the program inside ends it.
func (s *session) serveRequests(ctx context.Context, requests <-chan *ssh.Request) {
	for r := range requests {
		switch r.Type {
		case "env":
			_ = r.Reply(s.variable(r.Payload), nil)
		case "exec", "shell", "subsystem":
			if s.begun {
				s.refuse("a second " + r.Type)
				_ = r.Reply(false, nil)
				continue
			}
			s.begun = true
			_ = r.Reply(true, nil) // else the client would not read the reason
			s.wg.Go(func() { s.run(ctx, r) })
		case "signal", "window-change", "eow@openssh.com", "keepalive@openssh.com":
			_ = r.Reply(false, nil)
		default: // a terminal, an agent, a screen
			s.refuse(r.Type)
			_ = r.Reply(false, nil)
		}
	}
}

// variable takes the version of git's protocol, and drops all other variables.
func (s *session) variable(payload []byte) bool {
	var v struct{ Name, Value string }
	switch {
	case ssh.Unmarshal(payload, &v) != nil:
		s.refuse("env")
		return false
	case passesOn(v.Name, v.Value) && !s.begun:
		s.version = v.Value
		return true
	case !isLocale(v.Name):
		s.refuse("env " + v.Name)
	}
	return false
}

// run carries out the session's request, and ends the session.
func (s *session) run(ctx context.Context, r *ssh.Request) {
	end, err := s.command(ctx, r)
	s.cut.Reset(patience) // to hear how it ended
	if err != nil {
		s.tellReason(err)
		end = sendExit(statusRefused)
	}
	_, _ = s.ch.SendRequest(end.kind, false, end.payload)
	_ = s.ch.Close()
	s.cut.Reset(farewell)
}

// tellReason tells the person inside the reason.
func (s *session) tellReason(err error) {
	words := err.Error()
	if h, ok := errors.AsType[*hidden](err); ok {
		words = h.said
	}
	var text strings.Builder
	for line := range strings.Lines(words) {
		text.WriteString("bothy: " + strings.TrimRight(line, "\n") + "\r\n")
	}
	_, _ = io.WriteString(s.ch.Stderr(), text.String())
}

// ending is SSH's description of how a command ended.
type ending struct {
	kind    string
	payload []byte
}

func sendExit(status uint32) ending {
	return ending{"exit-status", ssh.Marshal(struct{ Status uint32 }{status})}
}

// command finds out which command is asked for, and runs it.
func (s *session) command(ctx context.Context, r *ssh.Request) (ending, error) {
	if r.Type != "exec" {
		s.refuse(r.Type)
		return ending{}, fmt.Errorf("a %s is refused: %w", r.Type, errCommand)
	}
	var text struct{ Command string }
	if err := ssh.Unmarshal(r.Payload, &text); err != nil {
		s.refuse("exec")
		return ending{}, errCommand
	}
	cmd, err := ParseCommand(text.Command)
	if err != nil {
		s.refuse("exec " + text.Command)
		return ending{}, fmt.Errorf("the command is refused: %w", err)
	}
	if cmd.User = s.user; !gitrepo.IsUser(s.user) {
		return ending{}, errors.New("the user's name is none")
	}
	done, err := s.Ask(cmd)
	if err != nil {
		return ending{}, err
	}
	s.cut.Stop()
	end, err := s.passCommand(ctx, cmd)
	return end, done(err)
}
