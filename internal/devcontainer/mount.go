package devcontainer

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// mounts reads the requested mounts. A volume becomes a directory of the sandbox's own. A file
// cannot make the sandbox show a directory of the host.
func (f *File) mounts(raw json.RawMessage) error {
	list, err := elements(raw)
	if err != nil {
		return err
	}
	for _, e := range list {
		m, err := mount(e)
		if err != nil {
			return err
		}
		target := first(m, "target", "destination", "dst")
		switch first(m, "type") {
		case "volume":
			if !path.IsAbs(target) {
				return spec.Errorf(spec.ErrUsage, "the target %q of a volume is not absolute", target)
			}
			f.Volumes = append(f.Volumes, path.Clean(target))
		case "", "bind":
			f.note("mounts", fmt.Sprintf("%s is left out: no file shows a directory of this host; to do so yourself: -v DIR:%s", told(first(m, "source", "src")), told(target)))
		default:
			f.note("mounts", fmt.Sprintf("%s is left out: only volumes are made", told(target)))
		}
	}
	return nil
}

// mount reads one mount: in the form of docker's --mount, or an object.
func mount(raw json.RawMessage) (map[string]string, error) {
	m := map[string]string{}
	if kind(raw) == '"' {
		whole, err := line(raw)
		if err != nil {
			return nil, err
		}
		for part := range strings.SplitSeq(whole, ",") {
			key, value, _ := strings.Cut(part, "=")
			m[strings.TrimSpace(key)] = strings.Trim(value, `"`)
		}
		return m, nil
	}
	list, err := members(raw)
	if err != nil {
		return nil, wants("a list of mounts")
	}
	for _, p := range list {
		if kind(p.raw) != '"' {
			continue // other values are ignored
		}
		if m[p.name], err = line(p.raw); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// first returns the value of the first of these names that has one.
func first(m map[string]string, names ...string) string {
	for _, name := range names {
		if m[name] != "" {
			return m[name]
		}
	}
	return ""
}
