package hostcreds

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// pipNetrc is the number of the file that has logins for indexes without one.
const pipNetrc = 3

// findPip looks where pip does, and at uv's variables.
func findPip(s *search) {
	indexes := map[string]text{} // by variable: addresses with spaces between
	for _, name := range s.tool.Variables {
		if v, ok := s.host.lookup(name); ok {
			indexes[name] = text{"$" + name, v}
		}
	}
	if file, _ := s.host.lookup("PIP_CONFIG_FILE"); file != "/dev/null" { // which means none
		for n := range pipNetrc {
			f := s.readToolFile(n)
			for key, v := range parsePipConf(f.content) {
				// Each setting has a variable of the same meaning.
				name := "PIP_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
				if (key == "index-url" || key == "extra-index-url") && indexes[name].content == "" {
					indexes[name] = text{f.from, v}
				}
			}
		}
	}
	var netrc text
	if len(indexes) > 0 {
		netrc = s.readToolFile(pipNetrc)
	}
	machines, named := parseNetrc(netrc.content), map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(indexes)) {
		p := pipList{search: s, variable: name, from: indexes[name].from, machines: machines, netrc: netrc.from, named: named}
		p.readIndexes(strings.Fields(indexes[name].content))
	}
	s.unnamedIndexes(named)
}

// pipList reads the indexes of one variable.
type pipList struct {
	*search
	variable, from string
	machines       []*machine
	netrc          string
	named          map[string]bool // indexes of uv whose address is known

	last  int    // index in found of the token that carries the following indexes without a login
	plain string // indexes without a login before the first one with a login
}

func (p *pipList) readIndexes(words []string) {
	p.last = -1
	for _, word := range words {
		name, address := cutIndex(word)
		l, err := parseLogin(address, p.from)
		if err != nil {
			continue
		}
		if name != "" {
			p.named[indexVariable(name)] = true
		}
		p.complete(&l, name)
		if name != "" {
			name += "="
		}
		if l.password != "" || l.user != "" {
			p.addIndex(l, name)
		} else {
			p.passIndex(name, l.at)
		}
	}
}

// complete looks for the login of an index that has none in its address.
func (p *pipList) complete(l *login, name string) {
	if name != "" {
		variable := indexVariable(name)
		if v, ok := p.host.lookup(variable + "_PASSWORD"); ok {
			l.password, l.from = v, "$"+variable+"_PASSWORD"
			user, _ := p.host.lookup(variable + "_USERNAME")
			l.user = cmp.Or(user, l.user)
		}
	}
	if l.password != "" {
		return
	}
	for _, m := range p.machines {
		if strings.EqualFold(m.name, l.at.hostname()) && (l.user == "" || l.user == m.login) && m.login != "" && m.password != "" {
			l.user, l.password, l.from = m.login, m.password, p.netrc
			return
		}
	}
}

// addIndex adds the login of an index. A login that serves several indexes is lent once.
func (p *pipList) addIndex(l login, name string) {
	t := l.toToken()
	t.Terms.Methods = []string{"GET", "HEAD"}
	word := spec.Setting{Kind: spec.SettingVariable, Name: p.variable, Text: p.plain + name + l.placeholderURL()}
	at := slices.IndexFunc(p.found, func(o Token) bool {
		return o.Err == nil && t.Err == nil && o.Host == t.Host && slices.Equal(o.Value, t.Value) && *o.Terms.Place == *t.Terms.Place
	})
	if at < 0 {
		p.found = append(p.found, t)
		at = len(p.found) - 1
		p.found[at].Tool = p.tool.Name
	}
	if t.Err != nil {
		return
	}
	p.found[at].Terms.Settings = append(p.found[at].Terms.Settings, word)
	p.last, p.plain = at, ""
}

// passIndex names an index without a login inside, beside the indexes with a login.
func (p *pipList) passIndex(name string, at address) {
	if vault.SecretIn(at.path) {
		return
	}
	word := name + at.String()
	if p.last < 0 {
		p.plain += word + " "
		return
	}
	said := p.found[p.last].Terms.Settings
	said[len(said)-1].Text += " " + word
}

// cutIndex splits the name off an index of uv.
func cutIndex(word string) (name, address string) {
	name, address, ok := strings.Cut(word, "=")
	if !ok || strings.ContainsAny(name, ":/") {
		return "", word
	}
	return name, address
}

// uvIndex is the prefix of uv's variables for the indexes of a name.
const uvIndex = "UV_INDEX_"

func indexVariable(name string) string {
	return uvIndex + strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return '_'
		}
		return unicode.ToUpper(r)
	}, name)
}

// unnamedIndexes reports passwords for indexes whose address is only in a project. The
// project is not trusted: it could name any address.
func (s *search) unnamedIndexes(named map[string]bool) {
	for _, kv := range s.host.Environ {
		name, value, _ := strings.Cut(kv, "=")
		index, ok := strings.CutSuffix(name, "_PASSWORD")
		if ok && value != "" && strings.HasPrefix(index, uvIndex) && !named[index] {
			s.refuse("", "$"+name, spec.Errorf(nil, "only a project says which server it is for").
				WithHint("name the index in UV_INDEX, as NAME=URL"))
		}
	}
}

// parsePipConf reads the settings of pip's file for installing: its section [global], and
// with precedence [install]. Values may continue in indented lines.
func parsePipConf(content string) map[string]string {
	sections := map[string]map[string]string{"global": {}, "install": {}}
	var section, key string
	for line := range strings.Lines(content) {
		word := strings.TrimSpace(line)
		switch {
		case word == "" || word[0] == '#' || word[0] == ';':
		case line[0] == ' ' || line[0] == '\t':
			if in := sections[section]; in != nil && key != "" {
				in[key] += " " + word
			}
		case word[0] == '[':
			section, key = strings.Trim(word, "[]"), ""
		default:
			i := strings.IndexAny(word, "=:")
			if i < 0 {
				continue
			}
			key = strings.ToLower(strings.ReplaceAll(strings.TrimLeft(strings.TrimSpace(word[:i]), "-"), "_", "-"))
			if in := sections[section]; in != nil {
				in[key] = strings.TrimSpace(word[i+1:])
			}
		}
	}
	all := sections["global"]
	maps.Copy(all, sections["install"])
	return all
}
