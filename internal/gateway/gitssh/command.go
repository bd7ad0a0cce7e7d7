package gitssh

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/gitrepo"
)

// Command is the command that git asks a server to run.
type Command struct {
	Service    string // policy.GitFetch or policy.GitPush
	Repository string // as it came, without its quotes; not judged yet
	User       string // the user that the program inside wants to log in as
}

// maxCommand bounds a command, in bytes.
const maxCommand = 2 << 10

var errCommand = errors.New("only " + gitrepo.Fetch + " 'REPOSITORY' and " + gitrepo.Push + " 'REPOSITORY' pass")

// ParseCommand reads a command to the letter, as git writes it:
//
//	git-upload-pack 'acme/app.git'
//
// A shell on the server would interpret the text by its own rules. So ParseCommand accepts only two
// words, one space, and quotes around a text without quotes. It accepts no other command: no option,
// nothing after it, no other quoting.
func ParseCommand(text string) (Command, error) {
	service, word, ok := strings.Cut(text, " ")
	if !ok || len(text) > maxCommand || service != gitrepo.Fetch && service != gitrepo.Push {
		return Command{}, errCommand
	}
	inner, opened := strings.CutPrefix(word, "'")
	name, closed := strings.CutSuffix(inner, "'")
	if !opened || !closed || name == "" {
		return Command{}, errCommand
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '\'' || r == '\\' }); i >= 0 {
		return Command{}, fmt.Errorf("%w, and not with %s in the repository's name", errCommand, strconv.QuoteToASCII(name[i:i+1]))
	}
	return Command{Service: service, Repository: name}, nil
}

// String returns the command for the server. It is the text that was read, and cannot be read in
// another way.
func (c Command) String() string { return c.Service + " '" + c.Repository + "'" }

// protocols are the values of GIT_PROTOCOL that git has.
var protocols = []string{"version=0", "version=1", "version=2"}

// passesOn reports whether a variable goes to the server.
func passesOn(name, value string) bool {
	return name == "GIT_PROTOCOL" && slices.Contains(protocols, value)
}

// isLocale reports whether a variable is one that clients send by themselves, such as the user's
// language. Such variables are dropped without a message.
func isLocale(name string) bool {
	return name == "LANG" || name == "LANGUAGE" || name == "COLORTERM" || name == "TERM" || name == "NO_COLOR" || strings.HasPrefix(name, "LC_")
}
