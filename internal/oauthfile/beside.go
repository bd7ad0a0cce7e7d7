package oauthfile

import (
	"encoding/json"
	"slices"

	"github.com/bothy-dev/bothy/spec"
)

// Own returns the names of the members in which a program keeps its login data: whole logins and keys.
func Own(how spec.AgentLogin, keys []spec.AgentKey) (names []string) {
	pointers := slices.Concat([]string{how.Access, how.Refresh, how.Expires, how.Identity, how.Renewed}, how.Keep)
	for _, k := range keys {
		if k.File == how.File {
			pointers = append(pointers, k.Key)
		}
	}
	for _, p := range pointers {
		if p != "" {
			names = append(names, pointerNames(p)[0])
		}
	}
	return names
}

// Beside merges a login with the other members that its program keeps in the same file.
// Members with other names than its own are kept as they are, even if an untrusted process
// wrote them. A file that is not a JSON object is an error.
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
