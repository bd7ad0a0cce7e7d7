// Package gitrepo reads names of git repositories at SSH servers, in the one form that rules compare.
package gitrepo

import (
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
	Fetch = "git-upload-pack"
	Push  = "git-receive-pack"
)

// DefaultUser is the account for logging in to servers that host repositories of many users.
const DefaultUser = "git"

// IsUser reports whether an account may have a name, and the name is safe to display.
func IsUser(name string) bool {
	for i := range len(name) {
		if !ascii.IsAlphanumeric(name[i]) && strings.IndexByte("._-+@", name[i]) < 0 {
			return false
		}
	}
	return name != "" && len(name) <= 64 && name[0] != '-'
}

// MaxRepository bounds the name of a repository.
const MaxRepository = 1 << 10

// CleanName returns the name of a repository in the form that rules compare. It
// removes the '/' before the name in a URL, a '/' after it, and a final ".git"; servers
// treat these names as the same. An accepted name has only one reading. Refused are names
// that climb (".."), that begin with '-' like an option, or that lead into a repository
// ("app.git/objects"). Refused, too, are characters that a shell, or one server but not
// another, might interpret.
//
// "~name" is literal, and allowed only at the beginning: some servers expand it to a home.
func CleanName(name string) (string, error) {
	fail := func(why string) (string, error) {
		return "", spec.Errorf(spec.ErrDenied, "repository %s %s", ascii.Quote(name), why)
	}
	clean := strings.TrimPrefix(name, "/")
	switch {
	case clean == "":
		return fail("is none")
	case len(name) > MaxRepository:
		return fail(fmt.Sprintf("is longer than %d bytes", MaxRepository))
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

// ParsePattern reads a pattern of repositories: acme/app, acme/*, acme/**. It must be
// written as CleanName writes names, because names are compared in that form.
func ParsePattern(s string) (urlpath.Pattern, error) {
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
		clean, err := CleanName(name)
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

// Matches reports whether a pattern matches a clean name. A wildcard does not match a user's
// home.
func Matches(p *urlpath.Pattern, name string) bool {
	if name[0] == '~' && p.BeginsOpen() {
		return false
	}
	return p.Matches("/" + name)
}

// SplitSCP splits an SSH address in scp's form, which git accepts: USER@HOST:REPOSITORY. An
// IPv6 address is in brackets, and so may be a host with its port, with the user or
// without.
func SplitSCP(s string) (user, host, repository string, ok bool) {
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

// SplitSSH splits an ssh URL after its scheme. Git decodes the escapes in it before it asks
// the server, and drops the '/' before a home.
func SplitSSH(rest string) (user, host, repository string, err error) {
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
