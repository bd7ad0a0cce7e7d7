package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/internal/policy/urlpath"
	"github.com/bothy-dev/bothy/spec"
)

// Git's commands to a server over SSH, for a fetch and for a push.
const (
	GitFetch = "git-upload-pack"
	GitPush  = "git-receive-pack"
)

// GitUser is the account for logging in to servers that host repositories of many users.
const GitUser = "git"

// GitRequest is a git command that the sandbox sends to an SSH server.
type GitRequest struct {
	Service    string // GitFetch or GitPush
	Repository string // as in the command, without its quotes
	User       string // the user it logs in as
}

// IsGitUser reports whether an account may have a name, and the name is safe to display.
func IsGitUser(name string) bool {
	for i := range len(name) {
		if !ascii.IsAlphanumeric(name[i]) && strings.IndexByte("._-+@", name[i]) < 0 {
			return false
		}
	}
	return name != "" && len(name) <= 64 && name[0] != '-'
}

// maxRepository bounds the name of a repository.
const maxRepository = 1 << 10

// CleanRepository returns the name of a repository in the form that rules compare. It
// removes the '/' before the name in a URL, a '/' after it, and a final ".git"; servers
// treat these names as the same. An accepted name has only one reading. Refused are names
// that climb (".."), that begin with '-' like an option, or that lead into a repository
// ("app.git/objects"). Refused, too, are characters that a shell, or one server but not
// another, might interpret.
//
// "~name" is literal, and allowed only at the beginning: some servers expand it to a home.
func CleanRepository(name string) (string, error) {
	fail := func(why string) (string, error) {
		return "", spec.Errorf(spec.ErrDenied, "repository %s %s", ascii.Quote(name), why)
	}
	clean := strings.TrimPrefix(name, "/")
	switch {
	case clean == "":
		return fail("is none")
	case len(name) > maxRepository:
		return fail(fmt.Sprintf("is longer than %d bytes", maxRepository))
	case clean[0] == '-':
		return fail("begins as an option does")
	case clean[0] == '~' && clean != name:
		return fail("has a '~' behind '/'")
	case clean == "~" || strings.HasPrefix(clean, "~/"):
		return fail("is in the home of whoever logs in: write it without '~/'")
	}
	clean = strings.TrimSuffix(clean, "/")
	if strings.HasSuffix(clean, "/.git") {
		return fail("leads into a repository: write it without /.git")
	}
	clean = strings.TrimSuffix(clean, ".git")
	for i, seg := range strings.Split(clean, "/") {
		if i == 0 {
			if home, ok := strings.CutPrefix(seg, "~"); ok && home != "" {
				seg = home
			}
		}
		if why := oddSegment(seg); why != "" {
			return fail(why)
		}
	}
	return clean, nil
}

// oddSegment returns why a part of a repository's name could be read in two ways.
func oddSegment(seg string) string {
	for i := range len(seg) {
		if !ascii.IsAlphanumeric(seg[i]) && strings.IndexByte("._-+@", seg[i]) < 0 {
			return "has " + strconv.QuoteToASCII(seg[i:i+1]) + ", a character that is in no rule" + unescaped(seg[i:])
		}
	}
	switch {
	case seg == "":
		return "has an empty part"
	case seg[len(seg)-1] == '.': // "." and ".." too
		return "has a part that ends in '.'"
	case strings.HasSuffix(ascii.Fold(seg), ".git"):
		return "leads into a repository, or ends in .git twice"
	}
	return ""
}

// unescaped explains an escape that git sends literally. Git decodes escapes only in URLs.
func unescaped(rest string) string {
	if _, ok := ascii.HexByte(rest[1:]); rest[0] != '%' || !ok {
		return ""
	}
	return ": git reads '%' in ssh://git@HOST/NAME, not in HOST:NAME"
}

// parseRepository reads a pattern of repositories: acme/app, acme/*, acme/**. It must be
// written as CleanRepository writes names, because names are compared in that form.
func parseRepository(s string) (urlpath.Pattern, error) {
	fail := func(why string) (urlpath.Pattern, error) {
		return urlpath.Pattern{}, spec.Errorf(spec.ErrUsage, "repository %s %s", ascii.Quote(s), why)
	}
	segments := strings.Split(s, "/")
	open := segments[len(segments)-1] == "**"
	if open {
		segments = segments[:len(segments)-1]
	}
	plain := slices.Clone(segments)
	for i, seg := range segments {
		if seg == "*" {
			plain[i] = "x"
		} else if strings.Contains(seg, "*") {
			return fail("has a '*' that is not a whole part, or a '**' that is not the last one")
		}
	}
	if name := strings.Join(plain, "/"); len(segments) > 0 || !open {
		clean, err := CleanRepository(name)
		if err != nil {
			return urlpath.Pattern{}, &spec.Error{Class: spec.ErrUsage, Err: err}
		}
		if clean != name {
			return urlpath.Pattern{}, spec.Errorf(spec.ErrUsage, "repository %s is not in the form names are compared in", ascii.Quote(s)).
				WithHint("write it without '/' before it and without .git")
		}
	}
	return urlpath.New(segments, open), nil
}

// hasRepository reports whether a pattern matches a clean name. A wildcard does not match a user's
// home.
func hasRepository(p *urlpath.Pattern, name string) bool {
	if name[0] == '~' && p.BeginsOpen() {
		return false
	}
	return p.Matches("/" + name)
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
	case c.User != "" && !IsGitUser(c.User):
		return spec.Errorf(spec.ErrUsage, "user %s is no name to log in with", ascii.Quote(c.User))
	case a == Deny:
		return spec.Errorf(spec.ErrUsage, "git belongs to rules that allow").WithHint("what no rule names is denied")
	case !http.none() || http.WebSocket:
		return spec.Errorf(spec.ErrUsage, "git and HTTP conditions exclude each other").WithHint("write two rules")
	}
	return each("repository", c.Git, func(s string) error { _, err := parseRepository(s); return err })
}

// checkGit refuses a rule for repositories that is about more than SSH.
func (r *Rule) checkGit() error {
	switch {
	case len(r.HTTP.Git) == 0:
		return nil
	case r.Inspect || r.Passthrough:
		return spec.Errorf(spec.ErrUsage, "git does not go with inspect and passthrough").
			WithHint("its connections are looked into, and nothing but git passes")
	case r.Target.port == 0:
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
	g := &gitCond{push: c.Push, user: cmp.Or(c.User, GitUser)}
	for _, s := range c.Git {
		if p, err := parseRepository(s); err == nil { // checked before, so no error can occur
			g.repositories = append(g.repositories, p)
		}
	}
	return g
}

// admitsGit reports whether a rule that allows holds for a command.
func (k *cond) admitsGit(s *subject) bool {
	if k.git == nil || s.git.User != k.git.user || s.git.Service == GitPush && !k.git.push {
		return false
	}
	return slices.ContainsFunc(k.git.repositories, func(p urlpath.Pattern) bool { return hasRepository(&p, s.repository) })
}

// judgeGit refuses malformed commands.
func (s *subject) judgeGit(g *GitRequest) Cause {
	if g.Service != GitFetch && g.Service != GitPush || !IsGitUser(g.User) {
		return CauseQuestion
	}
	name, err := CleanRepository(g.Repository)
	if err != nil {
		return CauseRepository
	}
	s.git, s.repository = g, name
	return CauseNone
}

// suggestGit suggests to allow this one repository.
func (d *Decision) suggestGit() Suggestion {
	c := d.query.Git.conditions()
	if c.none() {
		return Suggestion{}
	}
	return allowing(d.query.target(), c)
}

// conditions returns the conditions that let this command through; none if
// the command is missing, or its name is not valid in a rule.
func (g *GitRequest) conditions() Conditions {
	if g == nil {
		return Conditions{}
	}
	name, err := CleanRepository(g.Repository)
	if err != nil {
		return Conditions{}
	}
	c := Conditions{Git: []string{name}, Push: g.Service == GitPush}
	if g.User != GitUser {
		c.User = g.User
	}
	return c
}

// portSSH is the port at which a rule without repositories opens a tunnel.
const portSSH = 22

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

// splitSCP splits an SSH address in scp's form, which git accepts: USER@HOST:REPOSITORY. An
// IPv6 address is in brackets, and so may be a host with its port, with the user or
// without.
func splitSCP(s string) (user, host, repository string, ok bool) {
	s, bracket := strings.CutPrefix(s, "[")
	user, at, ok := cutUser(s)
	if !ok || user == "" {
		return "", "", "", false
	}
	if !bracket {
		at, bracket = strings.CutPrefix(at, "[")
	}
	if !bracket {
		host, repository, _ = strings.Cut(at, ":")
		return user, host, repository, true
	}
	host, repository, _ = strings.Cut(at, "]:")
	if strings.Count(host, ":") > 1 {
		host = "[" + host + "]"
	}
	return user, host, repository, true
}

// cutUser cuts off the user of an SSH address. The user name itself may contain another
// '@'.
func cutUser(s string) (user, rest string, ok bool) {
	end := strings.IndexAny(s, ":/[")
	if end < 0 {
		end = len(s)
	}
	i := strings.LastIndexByte(s[:end], '@')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}

// splitSSH splits an ssh URL after its scheme. Git decodes the escapes in it before it asks
// the server, and drops the '/' before a home.
func splitSSH(rest string) (user, host, repository string, err error) {
	host, path, _ := strings.Cut(rest, "/")
	user, host, _ = cutUser(host)
	var name []byte
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' {
			v, ok := ascii.HexByte(path[i+1:])
			if !ok {
				return user, "", "", spec.Errorf(spec.ErrUsage, "%s has a '%%' that escapes nothing", ascii.Quote(path))
			}
			c, i = v, i+2
		}
		name = append(name, c)
	}
	if len(name) > 0 && name[0] == '~' {
		return user, host, string(name), nil
	}
	return user, host, "/" + string(name), nil
}

// parseGitQuery reads a user's question about git over SSH: an ssh URL, or git's short
// form, USER@HOST:REPOSITORY. The method is fetch, or push, or the command.
func parseGitQuery(q Query, user, repository, method string) (Query, error) {
	service := map[string]string{"": GitFetch, "fetch": GitFetch, GitFetch: GitFetch, "push": GitPush, GitPush: GitPush}[strings.ToLower(method)]
	switch {
	case service == "":
		return Query{}, spec.Errorf(spec.ErrUsage, "%s is nothing git does over SSH", ascii.Quote(method)).WithHint("it fetches or pushes: --method fetch, --method push")
	case !IsGitUser(user):
		return Query{}, spec.Errorf(spec.ErrUsage, "it does not say as whom git logs in").WithHint("write ssh://git@HOST/OWNER/NAME: without git@ ssh takes the name of whoever runs it")
	case strings.Trim(repository, "/") == "":
		return Query{}, spec.Errorf(spec.ErrUsage, "it names no repository").WithHint("write ssh://git@HOST/OWNER/NAME")
	}
	q.Stage, q.Git = StageGit, &GitRequest{Service: service, Repository: repository, User: user}
	return q, nil
}

// tunnel reports a rule that lets any SSH through.
func (l *linter) tunnel(r *Rule) {
	if r.Target.port == portSSH && r.HTTP.none() && !r.Inspect {
		l.add(KindTunnel, r, "lets any SSH through: a shell, a tunnel to anywhere; with git it is held to repositories")
	}
}

// pushes reports a rule that lets git push to any owner's repositories on that host.
func (l *linter) pushes(r *Rule) {
	for _, s := range r.HTTP.Git {
		if first, _, _ := strings.Cut(s, "/"); r.HTTP.Push && strings.HasPrefix(first, "*") {
			l.add(KindWide, r, "lets git push to repositories of anybody there")
			return
		}
	}
}
