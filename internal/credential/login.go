package credential

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

// hostLogin is a login that was read. Its token may have ended: the keeper renews it before use.
type hostLogin struct {
	at oauthfile.File
	*oauthfile.Document
	own []string // names of members of the file that hold credentials of the agent
}

func (v *Values) readLogin(s vault.Source) secretValue {
	a, err := v.agentWithLogin(s.Agent)
	if err != nil {
		return secretValue{err: err}
	}
	f := oauthfile.File{Path: s.Path, How: *a.Login}
	d, err := f.Read()
	if err != nil {
		return secretValue{err: err}
	}
	return secretValue{value: []byte(d.Access), login: &hostLogin{f, d, oauthfile.Own(*a.Login, a.Keys)}}
}

func (v *Values) loginOf(name string) (*spec.AgentLogin, error) {
	a, err := v.agentWithLogin(name)
	if err != nil {
		return nil, err
	}
	return a.Login, nil
}

// agentWithLogin returns an agent whose description says how it keeps its logins.
func (v *Values) agentWithLogin(name string) (*spec.Agent, error) {
	a, err := v.Agents.Find(name)
	if err != nil {
		return nil, err
	}
	if a.Login == nil {
		return nil, spec.Errorf(spec.ErrUsage, "the description of %s does not say where it keeps its login", a.Title).
			WithHint("add login to its description: see docs/guide/own-agent.md")
	}
	return a, nil
}

// completeLogin finds the file and the service of a secret that is a login.
func (v *Values) completeLogin(n *NewSecret) error {
	how, err := v.loginOf(n.Source.Agent)
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

func (h *hostLogin) addPlaceholders(s *vault.Secret, l *spec.Lease) {
	access, _ := h.StandIn()
	vault.StandIn(l, s.Service, access, h.Refresh)
}

// completeLoan adds the data to a loan that the keeper needs to renew it.
func (h *hostLogin) completeLoan(l *wire.Loan) {
	l.Masked = []wire.Value{wire.Value(h.Refresh)}
	l.Login = &wire.Login{Path: h.at.Path, How: h.at.How, Inside: h.at.Inside, Seal: h.at.Seal, Expires: h.Expires, Due: h.Due}
}

// addFile adds the login as programs inside see it.
func (h *hostLogin) addFile(to *Lent, l *spec.Lease) error {
	text, err := h.Inside(l.Placeholder, l.Renewal)
	if err == nil {
		to.files = append(to.files, loginFile{path: h.at.How.File, text: text, own: h.own})
	}
	return err
}

// loginFile is a login as programs inside see it.
type loginFile struct {
	path string // below the home
	text []byte
	own  []string // names of its members that hold credentials of an agent
}

// WriteHome writes the loans of a sandbox that starts into its home, as far as programs look there:
// logins, and the settings of npm. If that fails, the sandbox starts without them, and the user is told.
func (b *Broker) WriteHome(sb *spec.Sandbox, lent Lent) {
	b.writeLogins(sb, lent.files)
	b.tellNpm(sb, lent.Loans)
}

// writeLogins writes logins into the home of a sandbox that starts. It replaces the existing files,
// which a program inside may have written, but keeps the agent's other data beside its login. It follows
// no link out of the home.
func (b *Broker) writeLogins(sb *spec.Sandbox, files []loginFile) {
	if len(files) == 0 {
		return
	}
	home, err := os.OpenRoot(b.Values.Store.Sandbox(sb.ID).Home())
	if err == nil {
		defer home.Close()
		for _, f := range files {
			if perr := f.replace(home); perr != nil {
				err = errors.Join(err, fmt.Errorf("write ~/%s: %w", f.path, perr))
			}
		}
	}
	if err != nil {
		b.Values.tellUser("sandbox %s starts without its login: %v", sb.Name, err)
	}
}

// freshLogin is the suffix of a login's file until the file is complete.
const freshLogin = ".new"

// LoginFiles returns the files in the home of a sandbox that may hold a login: the file itself, and the
// remains of an interrupted start.
func LoginFiles(how *spec.AgentLogin) []string { return []string{how.File, how.File + freshLogin} }

// replace writes the file, unless its contents are right already.
func (f *loginFile) replace(home *os.Root) error {
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
	fresh := f.path + freshLogin // a failure leaves the earlier file
	if err := home.RemoveAll(fresh); err != nil {
		return err
	}
	if err := store.PlaceBelow(home, fresh, string(text)); err != nil {
		return err
	}
	return home.Rename(fresh, f.path)
}
