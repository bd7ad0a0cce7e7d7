package engine

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// furnish writes the files that the home of a sandbox's agent begins with. It is
// done before the sandbox starts for the first time: nobody inside has been
// there. What is there already stays.
func (e *Engine) furnish(sb *spec.Sandbox) error {
	if sb.Agent == agent.Shell {
		return nil
	}
	a, err := e.Agents.Find(sb.Agent)
	if errors.Is(err, spec.ErrNotFound) {
		return nil // a program of the user's own
	}
	if err != nil {
		return err
	}
	servers := e.servers(sb)
	files := withServers(a, servers)
	if len(files) == 0 {
		return nil
	}
	return e.eachFile(sb, files, func(home *os.Root, f spec.AgentFile, lookup lookup) error {
		text, err := agent.Expand(f.Text, lookup)
		if err == nil && len(servers) > 0 && f.Path == a.Servers.File {
			text, err = agent.AddServers(f.Path, text, a.Servers.Key, servers)
		}
		if err != nil {
			return err
		}
		return place(home, f.Path, text)
	})
}

// refurnish writes placeholders into files that began without: when nothing had
// been lent yet. A file that was changed since is somebody's own.
func (e *Engine) refurnish(sb *spec.Sandbox) error {
	if sb.Agent == agent.Shell {
		return nil
	}
	a, err := e.Agents.Find(sb.Agent)
	if err != nil {
		return nil // there is none, or its description has gone
	}
	files := slices.DeleteFunc(slices.Clone(a.Home), func(f spec.AgentFile) bool { return !lends(f) })
	if len(files) == 0 {
		return nil
	}
	return e.eachFile(sb, files, func(home *os.Root, f spec.AgentFile, lookup lookup) error {
		before, err := agent.Expand(f.Text, func(word string) (string, bool) {
			if strings.HasPrefix(word, placeholderWord) {
				return "", true
			}
			return lookup(word)
		})
		if err != nil {
			return nil
		}
		now, err := agent.Expand(f.Text, lookup)
		if err != nil || now == before || !same(home, spec.AgentFile{Path: f.Path, Text: before}) {
			return nil
		}
		if err := home.Remove(f.Path); err != nil {
			return err
		}
		return place(home, f.Path, now)
	})
}

// eachFile does something about files of a sandbox's home.
func (e *Engine) eachFile(sb *spec.Sandbox, files []spec.AgentFile, do func(*os.Root, spec.AgentFile, lookup) error) error {
	lookup, err := e.words(sb)
	if err != nil {
		return err
	}
	home, err := os.OpenRoot(e.Store.Sandbox(sb.ID).Home())
	if err != nil {
		return err
	}
	defer home.Close()
	for _, f := range files {
		if err := do(home, f, lookup); err != nil {
			return &spec.Error{Op: "write ~/" + f.Path + " of sandbox " + sb.Name, Err: err}
		}
	}
	return nil
}

// lookup gives what a word in a file stands for.
type lookup = func(word string) (string, bool)

// lends tells whether a file names what stands for a credential.
func lends(f spec.AgentFile) bool { return strings.Contains(f.Text, "{"+placeholderWord) }

// placeholderWord begins the words that stand for credentials.
const placeholderWord = "placeholder:"

// words are what the text of a file may name. A service nothing is lent of has
// an empty placeholder.
func (e *Engine) words(sb *spec.Sandbox) (lookup, error) {
	leases, err := e.Leases(sb)
	if err != nil {
		return nil, err
	}
	secrets, _ := e.Secrets() // if they cannot be read nothing is lent, and the start says so
	services := map[string]string{}
	for _, s := range secrets {
		services[s.Name] = s.Service
	}
	placeholders := map[string]string{}
	for _, l := range slices.Backward(vault.Live(leases, time.Now())) { // the first counts
		placeholders[services[l.Secret]] = l.Placeholder
	}
	maps.Copy(placeholders, mockKeys(sb))
	return func(word string) (string, bool) {
		if word == "workspace" {
			return sb.Primary(), true
		}
		service, ok := strings.CutPrefix(word, placeholderWord)
		return placeholders[service], ok
	}, nil
}

func place(home *os.Root, name, text string) error {
	if err := home.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := home.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
