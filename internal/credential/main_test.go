package credential

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/credential/credentialtest"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/vault/sealer"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

func TestMain(m *testing.M) {
	if os.Args[0] == vault.Argv0 {
		os.Exit(sealer.Main(os.Stdin, os.Stdout))
	}
	if script, ok := os.LookupEnv(readerVar); ok {
		os.Exit(readSourceOf(script))
	}
	for _, name := range append(busVariables, passphraseVar) {
		_ = os.Unsetenv(name)
	}
	os.Exit(m.Run())
}

const (
	canary       = "sk-canary-0123456789abcdef"
	oauthAccess  = credentialtest.Access
	oauthRefresh = credentialtest.Refresh
)

var here = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// desk is a broker with its state, and the messages that it printed.
type desk struct {
	*Broker
	*Values
	*life
}

// newDesk returns a desk on a new state directory.
func newDesk(t testing.TB) *desk {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return deskAt(s)
}

// deskAt returns a desk on a state directory that others may work on.
func deskAt(s *store.Store) *desk {
	v, l := &Values{Store: s}, &life{running: map[string]chan wire.LoanChange{}}
	v.Say = func(format string, args ...any) { l.said = append(l.said, fmt.Sprintf(format, args...)) }
	return &desk{NewBroker(v, l), v, l}
}

// Create makes a sandbox that does not run.
func (e *desk) Create(_ context.Context, sb *spec.Sandbox) error {
	if sb.Name == "" {
		sb.Name = "box-" + sb.ID
	}
	_, err := e.Store.Create(sb)
	return err
}

// readValue reads the value of one secret.
func (e *desk) readValue(d *vault.Document, name string) ([]byte, error) {
	got := e.readValues(here, d, []string{name})[name]
	return got.value, got.err
}

// life is a life cycle of sandboxes without sandboxes. It is for one goroutine at a time, but for
// TellLoans.
type life struct {
	said    []string
	mu      sync.Mutex
	running map[string]chan wire.LoanChange
}

func (l *life) TellLoans(_ context.Context, sb *spec.Sandbox, change wire.LoanChange) error {
	l.mu.Lock()
	told := l.running[sb.ID]
	l.mu.Unlock()
	if told != nil {
		told <- change
	}
	return nil
}

func (l *life) EditPolicy(_ context.Context, _ *spec.Sandbox, edit func(*policyfile.File) error) error {
	return edit(&policyfile.File{})
}

func (l *life) RevokeAway(func(*spec.Lease) bool, func(*spec.Sandbox, []spec.Lease)) error {
	return nil
}

// run makes a sandbox run, and returns the changes that its keeper is told.
func (l *life) run(sb *spec.Sandbox) chan wire.LoanChange {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[sb.ID] = make(chan wire.LoanChange, 8)
	return l.running[sb.ID]
}

// next returns the next change that a keeper was told.
func next(t *testing.T, told chan wire.LoanChange) wire.LoanChange {
	t.Helper()
	select {
	case c := <-told:
		return c
	default:
		t.Fatal("the keeper was told nothing")
		panic("unreachable")
	}
}

// wish returns a sandbox of the shell in a directory.
func wish(dir string) *spec.Sandbox {
	return &spec.Sandbox{
		Version: spec.Version, ID: store.NewID(), Agent: agent.Shell, Template: spec.TemplateHost, Driver: "gvisor",
		CreatedAt: time.Now().UTC(), Workspaces: []spec.Mount{{Source: dir, Target: dir}},
	}
}

func stored(name, value string) NewSecret {
	return NewSecret{Name: name, Source: vault.Source{Kind: vault.SourceStored}, Value: []byte(value)}
}

// lent returns a sandbox with a lease of a secret.
func lent(t *testing.T, e *desk, secret string) (*spec.Sandbox, *spec.Lease) {
	t.Helper()
	sb := wish(t.TempDir())
	must(t, e.Create(here, sb))
	l, err := e.Lend(here, sb, secret, vault.Terms{Hosts: []string{"api.example.com"}})
	must(t, err)
	return sb, l
}

// nowhere checks that no file of the state contains the canary.
func nowhere(t *testing.T, e *desk) {
	t.Helper()
	credentialtest.NowhereIn(t, e.Store.Path(), canary)
}

// signedIn returns a desk on a host on which a user of claude has logged in, with the file of the
// login.
func signedIn(t *testing.T) (e *desk, path string, said *[]string) {
	t.Helper()
	e = newDesk(t)
	e.Agents = agent.NewCatalog("")
	return e, credentialtest.SignIn(t), &e.said
}

func claude(t *testing.T, e *desk) *spec.Agent {
	t.Helper()
	a, err := e.Agents.Find("claude")
	must(t, err)
	return a
}
