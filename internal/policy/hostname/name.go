// Package hostname checks host names and returns them in the form in which they are judged. It knows
// which names lead into a private network or never leave the sandbox.
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

// Clean returns a host name in the form in which it is judged: lower case, without the dot of the root.
// A name must be ASCII: names in other scripts travel as punycode, and a rule must mean exactly one
// name. Clean refuses a name that some resolver would take for an address (its last label is a number,
// as in 127.1 or 0x7f.1), because names and addresses have different rules.
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

// nameFault describes the fault of a name; "" means that it has none.
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
			return "has a character other than letters, digits, '-' and '_'"
		}
	}
	return ""
}

// numeric reports whether the classic address parsers read a label as a number: decimal, octal or
// hexadecimal.
func numeric(label string) bool {
	if rest, ok := strings.CutPrefix(ascii.Fold(label), "0x"); ok {
		return strings.Trim(rest, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// gatewayZone is the zone of the names that the gateway answers itself; no rule is about them. Docker's
// name for the host is an alias of one of them.
const gatewayZone = "bothy"

// PrivateZones are domains whose names mean something else on every network (RFC 6761, 6762 appendix G,
// 7686, 8375, 9476; .internal by ICANN). A name in them, or of one label, leads into the host's own
// network. So neither a default nor a rule for everything reaches it: a rule has to name it.
var PrivateZones = []string{
	"localhost", "local", "internal", "intranet", "private", "corp", "home", "lan",
	"home.arpa", "onion", "alt",
}

// IsPrivate reports whether only a rule that names it can allow a name.
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

// IsUnroutable reports whether a name never leaves the sandbox: localhost is the sandbox itself, and the
// gateway's own names mean nothing outside.
func IsUnroutable(name string) bool {
	for _, zone := range []string{"localhost", gatewayZone, spec.DockerHostName} {
		if name == zone || IsBelow(name, zone) {
			return true
		}
	}
	return false
}

// IsBelow reports whether name is under zone, at any depth, and not zone itself.
func IsBelow(name, zone string) bool {
	n := len(name) - len(zone)
	return n > 1 && name[n-1] == '.' && name[n:] == zone
}

// Parent returns the name without its first label; "" for a single label.
func Parent(name string) string {
	_, rest, _ := strings.Cut(name, ".")
	return rest
}
