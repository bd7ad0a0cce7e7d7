package engine

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// furnish writes the files that the home of a sandbox's agent begins with. It is
// done before the sandbox starts for the first time: nobody inside has been
// there. What is there already stays.
func (e *Engine) furnish(sb *spec.Sandbox) error {
	e.storesAtHome(sb)
	a, err := e.Agents.In(sb)
	if a == nil {
		return err
	}
	servers := e.servers(sb)
	if len(a.Home) == 0 && len(servers) == 0 {
		return nil
	}
	return e.atHome(sb, func(home *os.Root, lookup lookup) error {
		for _, f := range withServers(a, beginnings(a.Home, lookup), servers) {
			text, err := agent.Expand(f.Text, lookup)
			if err == nil && len(servers) > 0 && f.Path == a.Servers.File {
				text, err = agent.AddServers(f.Path, text, a.Servers.Key, servers)
			}
			if err == nil {
				err = store.PlaceBelow(home, f.Path, text)
			}
			if err != nil {
				return &spec.Error{Op: "write ~/" + f.Path + " of sandbox " + sb.Name, Err: err}
			}
		}
		return nil
	})
}

// Where pnpm looks for settings until its version 10, and what it is told there: to keep packages in
// the home. It would keep them in the project, because the home is another file system than that.
// Later versions read PNPM_CONFIG_STORE_DIR; npm complains of the variable that earlier ones read.
const (
	pnpmSettings = ".config/pnpm/rc"
	pnpmStore    = "store-dir=${HOME}/.local/share/pnpm/store\n"
)

// storesAtHome has package managers keep what they download in the sandbox's home.
func (e *Engine) storesAtHome(sb *spec.Sandbox) {
	if sb.Build != nil {
		return
	}
	home, err := os.OpenRoot(e.Store.Sandbox(sb.ID).Home())
	if err == nil {
		defer home.Close()
		err = store.PlaceBelow(home, pnpmSettings, pnpmStore)
	}
	if err != nil { // an image's home may have anything there
		e.say("pnpm in sandbox %s may keep its packages in the project: ~/%s: %v", sb.Name, pnpmSettings, err)
	}
}

// refurnish gives files that began when nothing had been lent yet what they begin with
// when something is. One that was changed since is somebody's own.
func (e *Engine) refurnish(sb *spec.Sandbox) error {
	a, err := e.Agents.In(sb)
	if err != nil { // who looks after the work in it can do without the agent
		e.say("the home of sandbox %s stays as it is: %v", sb.Name, err)
	}
	if a == nil {
		return nil
	}
	depends := func(f spec.AgentFile) bool { return lends(f) || len(f.Lent) > 0 }
	if !slices.ContainsFunc(a.Home, depends) {
		return nil
	}
	return e.atHome(sb, func(home *os.Root, lookup lookup) error {
		without := lookup.lendingNothing()
		began := beginnings(a.Home, without)
		for _, f := range beginnings(a.Home, lookup) {
			i := slices.IndexFunc(began, func(b spec.AgentFile) bool { return b.Path == f.Path })
			now, err := agent.Expand(f.Text, lookup)
			switch {
			case err != nil:
			case i < 0:
				err = store.PlaceBelow(home, f.Path, now)
			default:
				var before string
				if before, err = agent.Expand(began[i].Text, without); err == nil {
					err = change(home, f.Path, before, now)
				}
			}
			if err != nil { // somebody inside may have made anything there
				e.say("~/%s of sandbox %s stays as it is: %v", f.Path, sb.Name, err)
			}
		}
		return nil
	})
}

// change gives a file another text, if it still has the one before.
func change(home *os.Root, name, before, now string) error {
	if there, ok := store.RegularBelow(home, name, int64(len(before))); !ok || string(there) != before || now == before {
		return nil
	}
	if err := home.Remove(name); err != nil {
		return err
	}
	return store.PlaceBelow(home, name, now)
}

// beginnings are the files that a home begins with by what is lent, each path once.
func beginnings(files []spec.AgentFile, lookup lookup) (list []spec.AgentFile) {
	for _, f := range files {
		there := slices.ContainsFunc(list, func(o spec.AgentFile) bool { return o.Path == f.Path })
		if f.Barred != "" {
			if barred, _ := lookup(barredWord + f.Barred); barred == "" {
				continue
			}
		}
		if !there && (len(f.Lent) == 0 || slices.ContainsFunc(f.Lent, lookup.lends)) {
			list = append(list, f)
		}
	}
	return list
}

// atHome does something in a sandbox's home, with the words that its files may name.
func (e *Engine) atHome(sb *spec.Sandbox, do func(*os.Root, lookup) error) error {
	lookup, err := e.words(sb)
	if err != nil {
		return err
	}
	home, err := os.OpenRoot(e.Store.Sandbox(sb.ID).Home())
	if err != nil {
		return err
	}
	defer home.Close()
	return do(home, lookup)
}

// lookup gives what a word in a file stands for.
type lookup func(word string) (string, bool)

// lends tells whether something of a service is lent.
func (l lookup) lends(service string) bool {
	placeholder, _ := l(placeholderWord + service)
	return placeholder != ""
}

// lendingNothing is l for somebody who is lent nothing.
func (l lookup) lendingNothing() lookup {
	return func(word string) (string, bool) {
		if strings.HasPrefix(word, placeholderWord) {
			return "", true
		}
		return l(word)
	}
}

// lends tells whether a file names what stands for a credential.
func lends(f spec.AgentFile) bool { return strings.Contains(f.Text, "{"+placeholderWord) }

// placeholderWord begins the words that stand for credentials, barredWord those that tell
// whether the policy keeps the sandbox from a host.
const (
	placeholderWord = "placeholder:"
	barredWord      = "barred:"
)

// words are what the text of a file may name. A service nothing is lent of has
// an empty placeholder.
func (e *Engine) words(sb *spec.Sandbox) (lookup, error) {
	leases, err := e.Credentials().Leases(sb)
	if err != nil {
		return nil, err
	}
	secrets, _ := e.Credentials().Values.Secrets() // if they cannot be read nothing is lent, and the start says so
	services := map[string]string{}
	for _, s := range secrets {
		services[s.Name] = cmp.Or(s.Service, s.Name) // one that only a description knows has its name
	}
	placeholders := map[string]string{}
	for _, l := range slices.Backward(vault.Live(leases, time.Now())) { // the first counts
		placeholders[services[l.Secret]] = l.Placeholder
	}
	maps.Copy(placeholders, modelmock.Keys(sb))
	if s := sb.ModelServer; s != nil {
		placeholders = map[string]string{agent.LentServer: s.URL, agent.LentModel: s.Model}
	}
	return func(word string) (string, bool) {
		if word == "workspace" {
			return sb.Primary(), true
		}
		if value, ok := agent.ServerWord(word, sb.ModelServer); ok {
			return value, true
		}
		if host, ok := strings.CutPrefix(word, barredWord); ok {
			return e.barred(sb, host), true
		}
		service, ok := strings.CutPrefix(word, placeholderWord)
		return placeholders[service], ok
	}, nil
}

// barred says why the policy keeps a sandbox from a host; the empty string: it does not.
func (e *Engine) barred(sb *spec.Sandbox, host string) string {
	p, err := e.Policy(sb)
	if err != nil {
		return err.Error()
	}
	name, _, _ := strings.Cut(host, ":")
	d := p.Decide(policy.Query{Stage: policy.StageLookup, Name: name, Now: time.Now()})
	if d.Allowed() {
		return ""
	}
	return d.Reason()
}
