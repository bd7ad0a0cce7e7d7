package clienthello

import (
	"strings"

	"golang.org/x/crypto/cryptobyte"
)

// Extensions that are read. Of the others only the frame is read.
const (
	extName  = 0
	extALPN  = 16
	extInner = 0xfe0d // the encrypted ClientHello
)

// parse reads a ClientHello.
func parse(m []byte) (Info, error) {
	s := cryptobyte.String(m)
	var version uint16
	var session, suites, compressions, extensions cryptobyte.String
	switch {
	case !s.ReadUint16(&version) || !s.Skip(32) || !s.ReadUint8LengthPrefixed(&session) ||
		!s.ReadUint16LengthPrefixed(&suites) || !s.ReadUint8LengthPrefixed(&compressions):
		return Info{}, unreadable("it is too short")
	case version>>8 != 3 || version&0xff > 4:
		return Info{}, unreadable("it has version %#x", version)
	case len(session) > 32 || len(suites) == 0 || len(suites)%2 != 0 || len(compressions) == 0:
		return Info{}, unreadable("its list of offers has a wrong length")
	case s.Empty():
		return Info{}, nil // an old client's
	case !s.ReadUint16LengthPrefixed(&extensions) || !s.Empty():
		return Info{}, unreadable("its extensions have a wrong length")
	}
	return parseExtensions(extensions)
}

func parseExtensions(s cryptobyte.String) (Info, error) {
	var info Info
	seen := map[uint16]bool{}
	for !s.Empty() {
		var kind uint16
		var data cryptobyte.String
		if !s.ReadUint16(&kind) || !s.ReadUint16LengthPrefixed(&data) {
			return Info{}, unreadable("an extension has a wrong length")
		}
		if seen[kind] {
			return Info{}, unreadable("extension %d is there twice", kind)
		}
		seen[kind] = true
		var err error
		switch kind {
		case extName:
			info.ServerName, err = parseName(data)
		case extALPN:
			info.Protocols, err = parseProtocols(data)
		case extInner:
			err = parseInner(data)
		}
		if err != nil {
			return Info{}, err
		}
	}
	return info, nil
}

// parseName reads the one name of a host, if any.
func parseName(s cryptobyte.String) (string, error) {
	var list, name cryptobyte.String
	var kind uint8
	switch {
	case !s.ReadUint16LengthPrefixed(&list) || !s.Empty() || !list.ReadUint8(&kind) || kind != 0 || !list.ReadUint16LengthPrefixed(&name):
		return "", unreadable("the name in it has a wrong form")
	case !list.Empty():
		return "", unreadable("it has more than one name")
	case !isName(string(name)):
		return "", unreadable("%q is not a host name", string(name))
	}
	return string(name), nil
}

// isName reports whether every server reads a name alike. RFC 6066 forbids a dot at the end, and
// some servers ignore it.
func isName(name string) bool {
	return name != "" && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".") && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
	})
}

func parseProtocols(s cryptobyte.String) ([]string, error) {
	var list cryptobyte.String
	if !s.ReadUint16LengthPrefixed(&list) || !s.Empty() || list.Empty() {
		return nil, unreadable("its protocols have a wrong form")
	}
	var all []string
	for !list.Empty() {
		var p cryptobyte.String
		if !list.ReadUint8LengthPrefixed(&p) || p.Empty() {
			return nil, unreadable("a protocol in it has a wrong form")
		}
		all = append(all, string(p))
	}
	return all, nil
}

// parseInner reads the frame of an encrypted ClientHello. Clients send an empty one, too, and only
// the server can tell the two apart.
func parseInner(s cryptobyte.String) error {
	var kind uint8
	var key, text cryptobyte.String
	if !s.ReadUint8(&kind) || kind != 0 || !s.Skip(5) || !s.ReadUint16LengthPrefixed(&key) || !s.ReadUint16LengthPrefixed(&text) || text.Empty() || !s.Empty() {
		return unreadable("its encrypted part has a wrong form")
	}
	return nil
}
