package sshagent

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"net"
	"strings"

	"github.com/bothy-dev/bothy/internal/gateway/namepool"
)

// knownHosts are the servers of a line of known_hosts: patterns, or one hashed name that can only
// be found by its name.
type knownHosts struct {
	patterns   []string // in lower case; with '!' before excluded ones
	salt, hash []byte   // of the name
}

// nameOf returns the name of a server in known_hosts: without the port, if that is ssh's.
func nameOf(at string) (string, error) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return "", err
	}
	host = namepool.Lower(host)
	if port == "22" {
		return host, nil
	}
	return "[" + host + "]:" + port, nil
}

func noHosts() error { return errors.New("it is about no host") }

// parseHosts reads the first field of a line.
func parseHosts(text string) (h knownHosts, err error) {
	if hashed, ok := strings.CutPrefix(text, "|1|"); ok {
		salt, hash, _ := strings.Cut(hashed, "|")
		if h.salt, err = base64.StdEncoding.DecodeString(salt); err == nil {
			h.hash, err = base64.StdEncoding.DecodeString(hash)
		}
		if err != nil || len(h.salt) != sha1.Size || len(h.hash) != sha1.Size {
			return h, noHosts()
		}
		return h, nil
	}
	if text[0] == '|' { // hashed in an unknown way
		return h, noHosts()
	}
	for p := range strings.SplitSeq(namepool.Lower(text), ",") {
		if p == "" || p == "!" {
			return h, noHosts()
		}
		h.patterns = append(h.patterns, p)
	}
	return h, nil
}

// matchesServer reports whether the line is about a server. A pattern that excludes the server wins over
// all others.
func (h *knownHosts) matchesServer(name string) bool {
	if h.hash != nil {
		mac := hmac.New(sha1.New, h.salt)
		mac.Write([]byte(name))
		return hmac.Equal(mac.Sum(nil), h.hash)
	}
	found := false
	for _, p := range h.patterns {
		if out, ok := strings.CutPrefix(p, "!"); ok {
			if isLike(out, name) {
				return false
			}
			continue
		}
		found = found || isLike(p, name)
	}
	return found
}

// isLike compares a name with a pattern: '*' is any part of it, '?' one character. It takes at most
// as many steps as the product of both lengths.
func isLike(pattern, name string) bool {
	p, n, star, from := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p, n = p+1, n+1
		case star >= 0: // the part for the last '*' is longer
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
