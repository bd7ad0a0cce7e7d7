package engine

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/bothy-dev/bothy/internal/login"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// hostLogin is a login of the host that was read. Its token may have ended: the
// keeper renews it before it is used.
type hostLogin struct {
	at login.File
	*login.Document
}

// readLogin reads the source of a login.
func (e *Engine) readLogin(s vault.Source) got {
	how, err := e.loginOf(s.Agent)
	if err != nil {
		return got{err: err}
	}
	f := login.File{Path: s.Path, How: *how}
	d, err := f.Read()
	if err != nil {
		return got{err: err}
	}
	return got{value: []byte(d.Access), login: &hostLogin{f, d}}
}

// loginOf is what is known of an agent's logins.
func (e *Engine) loginOf(name string) (*spec.AgentLogin, error) {
	a, err := e.Agents.Find(name)
	if err != nil {
		return nil, err
	}
	if a.Login == nil {
		return nil, spec.Errorf(spec.ErrUsage, "it is not known where %s keeps what it logged in with", a.Title).
			WithHint("its description would say so under login: see docs/agents.md")
	}
	return a.Login, nil
}

// completeLogin finds the file of a secret that is a login.
func (e *Engine) completeLogin(n *NewSecret) error {
	how, err := e.loginOf(n.Source.Agent)
	if err != nil {
		return err
	}
	home, err := store.Home()
	if err != nil {
		return err
	}
	f := login.Find(*how, home, os.Getenv)
	n.Source.Path = f.Path
	if n.Service == "" {
		n.Service = how.Service
	}
	_, err = f.Read()
	return err
}

func withHint(err error) string {
	if hint := spec.Hint(err); hint != "" {
		return err.Error() + "; " + hint
	}
	return err.Error()
}

// standIn makes what stands inside for the tokens.
func (h *hostLogin) standIn(s *vault.Secret, l *spec.Lease) {
	access, _ := h.StandIn()
	vault.StandIn(l, s.Service, access, h.Refresh)
}

// complete says in a loan what the keeper needs to renew it.
func (h *hostLogin) complete(l *wire.Loan) {
	l.Masked = []wire.Value{wire.Value(h.Refresh)}
	l.Login = &wire.Login{Path: h.at.Path, How: h.at.How, Inside: h.at.Inside, Seal: h.at.Seal, Expires: h.Expires, Due: h.Due}
}

// file adds the login as it is inside.
func (h *hostLogin) file(to *lending, l *spec.Lease) error {
	text, err := h.Inside(l.Placeholder, l.Renewal)
	if err == nil {
		to.files = append(to.files, spec.AgentFile{Path: h.at.How.File, Text: string(text)})
	}
	return err
}

// signIn writes logins into the home of a sandbox that starts. What is there was
// written by an earlier start, by the agent, or by anybody inside: it is replaced,
// and no link is followed out of the home.
func (e *Engine) signIn(sb *spec.Sandbox, files []spec.AgentFile) {
	if len(files) == 0 {
		return
	}
	home, err := os.OpenRoot(e.Store.Sandbox(sb.ID).Home())
	if err == nil {
		defer home.Close()
		for _, f := range files {
			err = errors.Join(err, putLogin(home, f))
		}
	}
	if err != nil {
		e.say("sandbox %s starts without its login: %v", sb.Name, err)
	}
}

func putLogin(home *os.Root, f spec.AgentFile) error {
	if same(home, f) {
		return nil
	}
	if err := home.RemoveAll(f.Path); err != nil {
		return fmt.Errorf("write ~/%s: %w", f.Path, err)
	}
	if err := place(home, f.Path, f.Text); err != nil {
		return fmt.Errorf("write ~/%s: %w", f.Path, err)
	}
	return nil
}

// same tells whether a file is as it shall be.
func same(home *os.Root, f spec.AgentFile) bool {
	info, err := home.Lstat(f.Path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(f.Text)) {
		return false
	}
	there, err := home.Open(f.Path)
	if err != nil {
		return false
	}
	defer there.Close()
	text, err := io.ReadAll(io.LimitReader(there, info.Size()+1))
	return err == nil && string(text) == f.Text
}
