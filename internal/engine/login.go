package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// hostLogin is a login of the host that was read. Its token may have ended: the
// keeper renews it before it is used.
type hostLogin struct {
	at oauthfile.File
	*oauthfile.Document
	own []string // names of members of the file in which what its agent logs in with is kept
}

// readLogin reads the source of a login.
func (e *Engine) readLogin(s vault.Source) got {
	a, err := e.agentOfLogin(s.Agent)
	if err != nil {
		return got{err: err}
	}
	f := oauthfile.File{Path: s.Path, How: *a.Login}
	d, err := f.Read()
	if err != nil {
		return got{err: err}
	}
	return got{value: []byte(d.Access), login: &hostLogin{f, d, oauthfile.Own(*a.Login, a.Keys)}}
}

// loginOf is what is known of an agent's logins.
func (e *Engine) loginOf(name string) (*spec.AgentLogin, error) {
	a, err := e.agentOfLogin(name)
	if err != nil {
		return nil, err
	}
	return a.Login, nil
}

// agentOfLogin gives an agent of whose logins something is known.
func (e *Engine) agentOfLogin(name string) (*spec.Agent, error) {
	a, err := e.Agents.Find(name)
	if err != nil {
		return nil, err
	}
	if a.Login == nil {
		return nil, spec.Errorf(spec.ErrUsage, "it is not known where %s keeps what it logged in with", a.Title).
			WithHint("its description would say so under login: see docs/guide/agents.md")
	}
	return a, nil
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
	f := oauthfile.Find(*how, home, os.Getenv)
	n.Source.Path = f.Path
	if n.Service == "" {
		n.Service = how.Service
	}
	_, err = f.Read()
	return err
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
		to.files = append(to.files, loginFile{path: h.at.How.File, text: text, own: h.own})
	}
	return err
}

// loginFile is a login as it is inside.
type loginFile struct {
	path string // below the home
	text []byte
	own  []string // names of members of it in which what an agent logs in with is kept
}

// signIn writes logins into the home of a sandbox that starts. What is there was
// written by an earlier start, by the agent, or by anybody inside: it is replaced, but for
// what the agent keeps beside its login, and no link is followed out of the home.
func (e *Engine) signIn(sb *spec.Sandbox, files []loginFile) {
	if len(files) == 0 {
		return
	}
	home, err := os.OpenRoot(e.Store.Sandbox(sb.ID).Home())
	if err == nil {
		defer home.Close()
		for _, f := range files {
			if perr := f.put(home); perr != nil {
				err = errors.Join(err, fmt.Errorf("write ~/%s: %w", f.path, perr))
			}
		}
	}
	if err != nil {
		e.say("sandbox %s starts without its login: %v", sb.Name, err)
	}
}

// freshLogin is what a login that is written is called until it is complete, behind its
// own name.
const freshLogin = ".new"

// put writes the file, unless it is as it shall be.
func (f *loginFile) put(home *os.Root) error {
	there, regular := store.RegularBelow(home, f.path, oauthfile.MaxFile)
	text := f.text
	if regular {
		if both, err := oauthfile.Beside(there, f.text, f.own); err == nil {
			text = both
		}
		if bytes.Equal(text, there) {
			return nil
		}
	} else if err := home.RemoveAll(f.path); err != nil {
		return err
	}
	fresh := f.path + freshLogin // who fails in between leaves what was there
	if err := home.RemoveAll(fresh); err != nil {
		return err
	}
	if err := store.PlaceBelow(home, fresh, string(text)); err != nil {
		return err
	}
	return home.Rename(fresh, f.path)
}
