// Package hostname says which host names there are, in the form they are judged in, and which of them
// lead into a private network or never leave the sandbox.
package hostname

import (
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/spec"
)

// Bounds of a host name (RFC 1035).
const (
	maxName  = 253
	maxLabel = 63
)

// Clean gives a host name in the form it is judged in: lower case, without
// the dot of the root. Only ASCII is a name: what people read as another script
// travels as punycode, and a rule must say exactly what it means. A name that
// some resolver would take for an address (its last label is a number, as in
// 127.1 or 0x7f.1) is refused, because names and addresses have different rules.
func Clean(s string) (string, error) {
	name := strings.TrimSuffix(s, ".")
	if why := nameFault(name); why != "" {
		err := spec.Errorf(spec.ErrUsage, "host name %q %s", s, why)
		if !ascii.IsASCII(s) {
			err = err.WithHint("write the name in its ASCII form, xn--…")
		}
		return "", err
	}
	return ascii.Fold(name), nil
}

// nameFault says what is wrong with a name; nothing is the empty string.
func nameFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxName:
		return "is longer than 253 characters"
	case !ascii.IsASCII(name):
		return "is not ASCII"
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if why := labelFault(label); why != "" {
			return why
		}
		last = label
	}
	if numeric(last) {
		return "would be read as an address by some resolvers"
	}
	return ""
}

func labelFault(label string) string {
	switch {
	case label == "":
		return "has an empty label"
	case len(label) > maxLabel:
		return "has a label longer than 63 characters"
	case label[0] == '-' || label[len(label)-1] == '-':
		return "has a label that begins or ends with '-'"
	}
	for i := range len(label) {
		if c := label[i]; !ascii.IsAlphanumeric(c) && c != '-' && c != '_' {
			return "has a character that is no letter, digit, '-' or '_'"
		}
	}
	return ""
}

// numeric tells labels that the classic address parsers read as a number:
// decimal, octal or hexadecimal.
func numeric(label string) bool {
	if rest, ok := strings.CutPrefix(ascii.Fold(label), "0x"); ok {
		return strings.Trim(rest, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// gatewayZone holds the names the gateway answers itself; no rule is about them.
// The name that docker has for the host is an alias of one of them.
const (
	gatewayZone = "bothy"
	dockerHost  = "host.docker.internal"
)

// PrivateZones are domains whose names mean something else on every network
// (RFC 6761, 6762 appendix G, 7686, 8375, 9476; .internal by ICANN). A name in
// them, or of one label, leads into the host's own network, so that neither a
// default nor a rule for everything reaches it: a rule has to name it.
var PrivateZones = []string{
	"localhost", "local", "internal", "intranet", "private", "corp", "home", "lan",
	"home.arpa", "onion", "alt",
}

// IsPrivate tells names that only a rule naming them can allow.
func IsPrivate(name string) bool {
	if strings.IndexByte(name, '.') < 0 {
		return true
	}
	for _, zone := range PrivateZones {
		if IsBelow(name, zone) {
			return true
		}
	}
	return false
}

// IsUnroutable tells names that never leave the sandbox: localhost is itself, and
// the gateway's own names are not the world's.
func IsUnroutable(name string) bool {
	for _, zone := range []string{"localhost", gatewayZone, dockerHost} {
		if name == zone || IsBelow(name, zone) {
			return true
		}
	}
	return false
}

// IsBelow tells whether name is a name under zone, at any depth, not zone itself.
func IsBelow(name, zone string) bool {
	n := len(name) - len(zone)
	return n > 1 && name[n-1] == '.' && name[n:] == zone
}

// Parent is the name without its first label; empty for a single label.
func Parent(name string) string {
	_, rest, _ := strings.Cut(name, ".")
	return rest
}
