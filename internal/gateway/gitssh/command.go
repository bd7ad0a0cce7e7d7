package gitssh

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy"
)

// Command is what git asks a server to run.
type Command struct {
	Service    string // policy.GitFetch or policy.GitPush
	Repository string // as it came, without its quotes; nobody has judged it yet
	User       string // as whom the program inside would log in
}

// maxCommand bounds a command, in bytes.
const maxCommand = 2 << 10

var errCommand = errors.New("only " + policy.GitFetch + " 'REPOSITORY' and " + policy.GitPush + " 'REPOSITORY' pass")

// ParseCommand reads a command to the letter, as git writes it:
//
//	git-upload-pack 'acme/app.git'
//
// A shell of the server's would read what comes, and its words would mean there what they
// mean to shells. So there are two words, one space, and quotes around what has none in
// it, and no other command: no option, nothing behind, no other quoting.
func ParseCommand(text string) (Command, error) {
	service, word, ok := strings.Cut(text, " ")
	if !ok || len(text) > maxCommand || service != policy.GitFetch && service != policy.GitPush {
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

// String is what the server is asked: the text that was read, and nothing else can be
// made of it.
func (c Command) String() string { return c.Service + " '" + c.Repository + "'" }

// protocols are the values of GIT_PROTOCOL that git has.
var protocols = []string{"version=0", "version=1", "version=2"}

// passesOn tells whether a variable goes to the server.
func passesOn(name, value string) bool {
	return name == "GIT_PROTOCOL" && slices.Contains(protocols, value)
}

// isLocale tells variables that clients send without being asked to, in which language
// somebody reads, say. They are dropped without a word.
func isLocale(name string) bool {
	return name == "LANG" || name == "LANGUAGE" || name == "COLORTERM" || name == "TERM" || name == "NO_COLOR" || strings.HasPrefix(name, "LC_")
}
