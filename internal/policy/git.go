package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/internal/policy/gitrepo"
	"github.com/bothy-dev/bothy/internal/policy/urlpath"
	"github.com/bothy-dev/bothy/spec"
)

// GitRequest is a git command that the sandbox sends to an SSH server.
type GitRequest struct {
	Service    string // GitFetch or GitPush
	Repository string // as in the command, without its quotes
	User       string // the user it logs in as
}

// checkGit refuses conditions that do not fit a rule for repositories.
func (c *Conditions) checkGit(a Action) error {
	if len(c.Git) == 0 {
		if c.Push {
			return spec.Errorf(spec.ErrUsage, "push is for a rule with git").WithHint("name the repositories")
		}
		if c.User != "" {
			return spec.Errorf(spec.ErrUsage, "user is for a rule with git").WithHint("name the repositories")
		}
		return nil
	}
	http := *c
	http.Git, http.Push, http.User = nil, false, ""
	switch {
	case c.User != "" && !gitrepo.IsUser(c.User):
		return spec.Errorf(spec.ErrUsage, "user %s is not a name to log in with", ascii.Quote(c.User))
	case a == Deny:
		return spec.Errorf(spec.ErrUsage, "git belongs to rules that allow").WithHint("what no rule names is denied")
	case !http.IsEmpty() || http.WebSocket:
		return spec.Errorf(spec.ErrUsage, "git and HTTP conditions exclude each other").WithHint("write two rules")
	}
	return checkEntries("repository", c.Git, func(s string) error { _, err := gitrepo.ParsePattern(s); return err })
}

// checkGit refuses a rule for repositories that is about more than SSH.
func (r *Rule) checkGit() error {
	switch {
	case len(r.HTTP.Git) == 0:
		return nil
	case r.Inspect || r.Passthrough:
		return spec.Errorf(spec.ErrUsage, "git does not go with inspect and passthrough").
			WithHint("its connections are looked into, and nothing but git passes")
	case r.Target.Port == 0:
		return spec.Errorf(spec.ErrUsage, "a rule with git needs a port").WithHint("write %s:22", r.Target)
	}
	return nil
}

// gitCond is the part of a rule about git.
type gitCond struct {
	repositories []urlpath.Pattern
	push         bool
	user         string
}

func (c *Conditions) compileGit() *gitCond {
	if len(c.Git) == 0 {
		return nil
	}
	g := &gitCond{push: c.Push, user: cmp.Or(c.User, gitrepo.DefaultUser)}
	for _, s := range c.Git {
		if p, err := gitrepo.ParsePattern(s); err == nil { // checked before, so no error can occur
			g.repositories = append(g.repositories, p)
		}
	}
	return g
}

// admitsGit reports whether a rule that allows holds for a command.
func (k *cond) admitsGit(s *subject) bool {
	if k.git == nil || s.git.User != k.git.user || s.git.Service == gitrepo.Push && !k.git.push {
		return false
	}
	return slices.ContainsFunc(k.git.repositories, func(p urlpath.Pattern) bool { return gitrepo.Matches(&p, s.repository) })
}

// readCommand refuses malformed commands.
func (s *subject) readCommand(g *GitRequest) Cause {
	if g.Service != gitrepo.Fetch && g.Service != gitrepo.Push || !gitrepo.IsUser(g.User) {
		return CauseQuestion
	}
	name, err := gitrepo.CleanName(g.Repository)
	if err != nil {
		return CauseRepository
	}
	s.git, s.repository = g, name
	return CauseNone
}

// suggestGit suggests to allow this one repository.
func (d *Decision) suggestGit() Suggestion {
	c := d.query.Git.conditions()
	if c.IsEmpty() {
		return Suggestion{}
	}
	return allowing(d.query.Target(), c)
}

// conditions returns the conditions that let this command through; none if
// the command is missing, or its name is not valid in a rule.
func (g *GitRequest) conditions() Conditions {
	if g == nil {
		return Conditions{}
	}
	name, err := gitrepo.CleanName(g.Repository)
	if err != nil {
		return Conditions{}
	}
	c := Conditions{Git: []string{name}, Push: g.Service == gitrepo.Push}
	if g.User != gitrepo.DefaultUser {
		c.User = g.User
	}
	return c
}

// PortSSH is the port at which a rule without repositories opens a tunnel.
const PortSSH = 22

// suggestSSH suggests a rule for git fetch when SSH was refused. The refusal does not show
// which repository the client wants. A rule without conditions would let through everything
// that SSH can do.
func suggestSSH(target string) Suggestion {
	s := allowing(target, Conditions{Git: []string{"**"}})
	s.Note = "this is for git to fetch; name your repositories in place of '**', and --push if it may push. Without --git a rule lets any SSH pass: a shell, a tunnel"
	return s
}

// gitWords returns a rule's repositories for people.
func (c *Conditions) gitWords() []string {
	if len(c.Git) == 0 {
		return nil
	}
	word := "git"
	if c.Push {
		word = "git push"
	}
	if c.User != "" {
		word += " as " + c.User
	}
	return append([]string{word}, c.Git...)
}

// parseGitQuery reads a user's question about git over SSH: an ssh URL, or git's short
// form, USER@HOST:REPOSITORY. The method is fetch, or push, or the command.
func parseGitQuery(q Query, user, repository, method string) (Query, error) {
	service := map[string]string{"": gitrepo.Fetch, "fetch": gitrepo.Fetch, gitrepo.Fetch: gitrepo.Fetch, "push": gitrepo.Push, gitrepo.Push: gitrepo.Push}[strings.ToLower(method)]
	switch {
	case service == "":
		return Query{}, spec.Errorf(spec.ErrUsage, "%s is nothing git does over SSH", ascii.Quote(method)).WithHint("it fetches or pushes: --method fetch, --method push")
	case !gitrepo.IsUser(user):
		return Query{}, spec.Errorf(spec.ErrUsage, "it does not say as whom git logs in").WithHint("write ssh://git@HOST/OWNER/NAME: without git@ ssh takes the name of whoever runs it")
	case strings.Trim(repository, "/") == "":
		return Query{}, spec.Errorf(spec.ErrUsage, "it names no repository").WithHint("write ssh://git@HOST/OWNER/NAME")
	}
	q.Stage, q.Git = StageGit, &GitRequest{Service: service, Repository: repository, User: user}
	return q, nil
}
