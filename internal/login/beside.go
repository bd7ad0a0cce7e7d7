package login

import (
	"encoding/json"
	"slices"

	"github.com/bothy-dev/bothy/spec"
)

// Own are the names of the members of its file in which a program keeps what it logs in
// with: a login, whole, and keys.
func Own(how spec.AgentLogin, keys []spec.AgentKey) (names []string) {
	pointers := slices.Concat([]string{how.Access, how.Refresh, how.Expires, how.Identity, how.Renewed}, how.Keep)
	for _, k := range keys {
		if k.File == how.File {
			pointers = append(pointers, k.Key)
		}
	}
	for _, p := range pointers {
		if p != "" {
			names = append(names, steps(p)[0])
		}
	}
	return names
}

// Beside gives a file with a login with what else its program keeps in it: members of
// other names than its own, as they are there, though nobody need have meant well who
// wrote them. What is no object is an error.
func Beside(there, login []byte, own []string) ([]byte, error) {
	var kept, all map[string]json.RawMessage
	if err := json.Unmarshal(there, &kept); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(login, &all); err != nil {
		return nil, err
	}
	mine := len(all)
	for name, v := range kept {
		if _, there := all[name]; !there && !slices.Contains(own, name) {
			all[name] = v
		}
	}
	if len(all) == mine {
		return login, nil
	}
	return encode(all, false)
}
