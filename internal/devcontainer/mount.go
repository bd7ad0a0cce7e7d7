package devcontainer

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// readMounts reads the requested mounts. A volume becomes a directory of the sandbox's own. A file
// cannot make the sandbox show a directory of the host.
func (f *File) readMounts(raw json.RawMessage) error {
	list, err := elements(raw)
	if err != nil {
		return err
	}
	for _, e := range list {
		m, err := readMount(e)
		if err != nil {
			return err
		}
		target := firstOf(m, "target", "destination", "dst")
		switch firstOf(m, "type") {
		case "volume":
			if !path.IsAbs(target) {
				return spec.Errorf(spec.ErrUsage, "the target %q of a volume is not absolute", target)
			}
			f.Volumes = append(f.Volumes, path.Clean(target))
		case "", "bind":
			f.addNote("mounts", fmt.Sprintf("%s is left out: no file shows a directory of this host; to do so yourself: -v DIR:%s", shorten(firstOf(m, "source", "src")), shorten(target)))
		default:
			f.addNote("mounts", fmt.Sprintf("%s is left out: only volumes are made", shorten(target)))
		}
	}
	return nil
}

// readMount reads one mount: in the form of docker's --mount, or an object.
func readMount(raw json.RawMessage) (map[string]string, error) {
	m := map[string]string{}
	if kindOf(raw) == '"' {
		whole, err := readLine(raw)
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
		return nil, errWants("a list of mounts")
	}
	for _, p := range list {
		if kindOf(p.raw) != '"' {
			continue // other values are ignored
		}
		if m[p.name], err = readLine(p.raw); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// firstOf returns the value of the first of these names that has one.
func firstOf(m map[string]string, names ...string) string {
	for _, name := range names {
		if m[name] != "" {
			return m[name]
		}
	}
	return ""
}
