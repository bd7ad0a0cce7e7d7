package hostcreds

import "strings"

// machine is an entry of a netrc file.
type machine struct{ name, login, password string }

// parseNetrc reads the entries for named machines. It skips the default entry, which
// applies to all other machines.
func parseNetrc(content string) []*machine {
	p := netrcParser{current: &machine{}}
	for line := range strings.Lines(content) {
		p.parseLine(strings.TrimSpace(line))
	}
	return p.list
}

type netrcParser struct {
	list    []*machine
	current *machine
	put     func(string) // where the next word goes; nil: it is a keyword
	macro   bool         // until an empty line
}

func (p *netrcParser) parseLine(rest string) {
	if p.macro {
		p.macro = rest != ""
		return
	}
	for rest != "" && !p.macro && (p.put != nil || rest[0] != '#') {
		var word string
		if word, rest = netrcWord(rest); p.put == nil {
			p.keyword(word)
			continue
		}
		p.put(word)
		p.put = nil
	}
}

func (p *netrcParser) keyword(word string) {
	switch word {
	case "machine":
		p.put = func(name string) {
			p.current = &machine{name: name}
			p.list = append(p.list, p.current)
		}
	case "default":
		p.current = &machine{}
	case "login", "user":
		p.put = func(v string) { p.current.login = v }
	case "password", "passwd":
		p.put = func(v string) { p.current.password = v }
	case "account":
		p.put = func(string) {}
	case "macdef":
		p.macro = true
	}
}

// netrcWord returns the first word, which may be quoted, and the rest.
func netrcWord(s string) (word, rest string) {
	if s[0] != '"' {
		end := strings.IndexAny(s, " \t")
		if end < 0 {
			return s, ""
		}
		return s[:end], strings.TrimLeft(s[end:], " \t")
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == '"':
			return b.String(), strings.TrimLeft(s[i+1:], " \t")
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), ""
}
