package vault

import (
	_ "embed"
	"slices"
	"strings"
)

// suffixes are the domains with more than one label in which anybody can register a name,
// one per line. They come from the public suffix list (publicsuffix.org, MPL-2.0) of
// golang.org/x/net; a test compares them. That package itself needs net/http, and every
// command would wait for its init. This text needs none.
//
//go:embed suffixes.txt
var suffixes string

// clouds are domains of which the list has only some subdomains: names directly below them also belong
// to many owners.
var clouds = []string{"amazonaws.com", "amazonaws.com.cn", "azure.com", "windows.net"}

// anybodys reports whether anyone can register a name in a domain: its subdomains belong to many owners.
func anybodys(domain string) bool {
	_, parent, below := strings.Cut(domain, ".")
	return !below || slices.Contains(clouds, domain) || isListed(domain) || isListed("*."+domain) ||
		isListed("*."+parent) && !isListed("!"+domain)
}

func isListed(rule string) bool { return strings.Contains(suffixes, "\n"+rule+"\n") }
