// Package agenthome prepares the home of a sandbox's agent: its first files, and the host's configuration that
// it sees. It also removes from a home all that other sandboxes must not get.
package agenthome

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// Homes are the homes of the sandboxes in one state directory.
type Homes struct {
	Keepers keeperclient.Keepers
	Agents  agent.Catalog
	Lent    *credential.Broker
	Rules   netrules.Rules
}

// Furnish writes the first files into the home of a sandbox's agent. It runs before the first start,
// when no program inside can have written there. It keeps existing files.
func (h Homes) Furnish(sb *spec.Sandbox) error {
	h.storesAtHome(sb)
	a, err := h.Agents.In(sb)
	if a == nil {
		return err
	}
	servers := h.servers(sb)
	if len(a.Home) == 0 && len(servers) == 0 {
		return nil
	}
	return h.atHome(sb, func(home *os.Root, lookup lookup) error {
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

// pnpm up to version 10 reads its settings from this file. The setting keeps packages in the home. By
// default pnpm would keep them in the project, because the home is another file system. Later versions
// read PNPM_CONFIG_STORE_DIR; npm complains of the variable that earlier versions read.
const (
	pnpmSettings = ".config/pnpm/rc"
	pnpmStore    = "store-dir=${HOME}/.local/share/pnpm/store\n"
)

// storesAtHome makes package managers keep their downloads in the sandbox's home.
func (h Homes) storesAtHome(sb *spec.Sandbox) {
	if sb.Build != nil {
		return
	}
	home, err := os.OpenRoot(h.Keepers.Store.Sandbox(sb.ID).Home())
	if err == nil {
		defer home.Close()
		err = store.PlaceBelow(home, pnpmSettings, pnpmStore)
	}
	if err != nil { // an image's home may have any file there
		h.Keepers.Say("pnpm in sandbox %s may keep its packages in the project: ~/%s: %v", sb.Name, pnpmSettings, err)
	}
}

// Refurnish updates files that were written when nothing was lent, once something is. It keeps a file
// that was changed since.
func (h Homes) Refurnish(sb *spec.Sandbox) error {
	a, err := h.Agents.In(sb)
	if err != nil { // the sandbox can be maintained without its agent
		h.Keepers.Say("the home of sandbox %s stays as it is: %v", sb.Name, err)
	}
	if a == nil {
		return nil
	}
	depends := func(f spec.AgentFile) bool { return namesPlaceholder(f) || len(f.Lent) > 0 }
	if !slices.ContainsFunc(a.Home, depends) {
		return nil
	}
	return h.atHome(sb, func(home *os.Root, lookup lookup) error {
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
			if err != nil { // programs inside may have put any file there
				h.Keepers.Say("~/%s of sandbox %s stays as it is: %v", f.Path, sb.Name, err)
			}
		}
		return nil
	})
}

// change replaces the text of a file, if it is still the text before.
func change(home *os.Root, name, before, now string) error {
	if there, ok := store.RegularBelow(home, name, int64(len(before))); !ok || string(there) != before || now == before {
		return nil
	}
	if err := home.Remove(name); err != nil {
		return err
	}
	return store.PlaceBelow(home, name, now)
}

// beginnings returns the first files of a home, which depend on the leases. Each path occurs once.
func beginnings(files []spec.AgentFile, lookup lookup) (list []spec.AgentFile) {
	for _, f := range files {
		there := slices.ContainsFunc(list, func(o spec.AgentFile) bool { return o.Path == f.Path })
		if f.Barred != "" {
			if barred, _ := lookup(barredWord + f.Barred); barred == "" {
				continue
			}
		}
		if !there && (len(f.Lent) == 0 || slices.ContainsFunc(f.Lent, lookup.lendsService)) {
			list = append(list, f)
		}
	}
	return list
}

// atHome calls do with a sandbox's home, and with the words that its files may name.
func (h Homes) atHome(sb *spec.Sandbox, do func(*os.Root, lookup) error) error {
	lookup, err := h.wordsFor(sb)
	if err != nil {
		return err
	}
	home, err := os.OpenRoot(h.Keepers.Store.Sandbox(sb.ID).Home())
	if err != nil {
		return err
	}
	defer home.Close()
	return do(home, lookup)
}

// lookup returns the value of a word in a file.
type lookup func(word string) (string, bool)

// lendsService reports whether a credential of a service is lent.
func (l lookup) lendsService(service string) bool {
	placeholder, _ := l(placeholderWord + service)
	return placeholder != ""
}

// lendingNothing returns l as it would be without any lease.
func (l lookup) lendingNothing() lookup {
	return func(word string) (string, bool) {
		if strings.HasPrefix(word, placeholderWord) {
			return "", true
		}
		return l(word)
	}
}

// namesPlaceholder reports whether a file names a placeholder.
func namesPlaceholder(f spec.AgentFile) bool { return strings.Contains(f.Text, "{"+placeholderWord) }

// placeholderWord begins the words for placeholders of credentials. barredWord begins the words that
// tell whether the policy denies the sandbox a host.
const (
	placeholderWord = "placeholder:"
	barredWord      = "barred:"
)

// wordsFor returns the lookup for the text of a file. A service without a lease has an empty placeholder.
func (h Homes) wordsFor(sb *spec.Sandbox) (lookup, error) {
	leases, err := h.Lent.Leases(sb)
	if err != nil {
		return nil, err
	}
	secrets, _ := h.Lent.Values.Secrets() // if they cannot be read, nothing is lent, and the start reports it
	services := map[string]string{}
	for _, s := range secrets {
		services[s.Name] = cmp.Or(s.Service, s.Name) // a secret that only a description knows goes by its name
	}
	placeholders := map[string]string{}
	for _, l := range slices.Backward(vault.Live(leases, time.Now())) { // the first lease counts
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
			return h.barred(sb, host), true
		}
		service, ok := strings.CutPrefix(word, placeholderWord)
		return placeholders[service], ok
	}, nil
}

// barred returns why the policy denies a sandbox a host, or the empty string if it does not.
func (h Homes) barred(sb *spec.Sandbox, host string) string {
	p, err := h.Rules.Policy(sb)
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
