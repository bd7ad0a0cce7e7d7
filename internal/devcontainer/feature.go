package devcontainer

import (
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

func readUses(raw json.RawMessage) (list []Use, err error) {
	named, err := members(raw)
	if err != nil {
		return nil, err
	}
	if len(named) > maxFeatures {
		return nil, spec.Errorf(spec.ErrUsage, "there are more than %d", maxFeatures)
	}
	for _, m := range named {
		if err := checkID(m.name); err != nil {
			return nil, err
		}
		options, err := chosen(m.raw)
		if err != nil {
			return nil, &spec.Error{Op: m.name, Err: err}
		}
		list = append(list, Use{m.name, options})
	}
	return list, nil
}

// Local reports whether a feature is in the file's directory; others are in a registry.
func (u Use) Local() bool { return strings.HasPrefix(u.ID, "./") }

// checkID accepts a feature below the file's directory, or one in a registry.
func checkID(id string) error {
	dir, ok := strings.CutPrefix(id, "./")
	if ok && path.Clean(dir) != "." && !strings.HasPrefix(path.Clean(dir), "../") && path.Clean(dir) != ".." && !path.IsAbs(dir) {
		return nil
	}
	if strings.HasPrefix(id, ".") || strings.HasPrefix(id, "/") {
		return spec.Errorf(spec.ErrUsage, "feature %q does not lie below the directory of the devcontainer.json", id)
	}
	host, _, more := strings.Cut(id, "/")
	if !more || strings.Contains(id, "://") || !strings.ContainsAny(host, ".:") {
		return spec.Errorf(spec.ErrUsage, "feature %q is neither beside the file (./NAME) nor in a registry (ghcr.io/OWNER/NAME:1)", id).
			WithHint(`copy its directory (with install.sh) beside the devcontainer.json, and name it "./NAME"`)
	}
	return nil
}

// chosen reads the options for a feature: an object, or its version alone.
func chosen(raw json.RawMessage) (map[string]string, error) {
	if kindOf(raw) == '"' {
		version, err := readText(raw)
		return map[string]string{"version": version}, err
	}
	if string(raw) == "true" || string(raw) == "{}" {
		return nil, nil
	}
	return readPairs(raw, option)
}

// option reads a string, or true or false.
func option(raw json.RawMessage) (string, error) {
	if s := string(raw); s == "true" || s == "false" {
		return s, nil
	}
	s, err := readText(raw)
	if err != nil {
		err = errWants("a text, or true or false")
	}
	return s, err
}

// Feature is a feature's description of itself.
type Feature struct {
	ID      string // as in the file
	Options map[string]string
	Settings
	Notes []string

	local  bool
	own    string   // its id in its own metadata
	after  []string // features that it should follow, if they are used
	needed []string
}

// localDir returns the feature's directory, relative to the devcontainer.json.
func (f *Feature) localDir() string { return path.Clean(strings.TrimPrefix(f.ID, "./")) }

// ParseFeature reads a feature's metadata for one use of it.
func ParseFeature(data []byte, u Use, p Place) (*Feature, error) {
	g := &Feature{ID: u.ID, local: u.Local(), Options: map[string]string{}}
	inner := &File{}
	x := &expander{place: p}
	unknown, err := readObject(data, x, func(name string, raw json.RawMessage) (bool, error) { return g.readKey(inner, name, raw) })
	if err == nil && (inner.ContainerUser != "" || inner.RemoteUser != "") {
		err = spec.Errorf(spec.ErrUsage, "a feature does not say who commands run as")
	}
	if err != nil {
		return nil, &spec.Error{Class: spec.ErrUsage, Op: "feature " + u.ID, Err: err, Hint: spec.Hint(err)}
	}
	maps.Copy(g.Options, u.Options)
	g.Settings = inner.Settings
	for i := range g.Commands {
		g.Commands[i].Name = strings.TrimSuffix(g.shownName()+" "+g.Commands[i].Name, " ")
	}
	if len(unknown) > 0 {
		inner.Notes = append(inner.Notes, notKnown(unknown))
	}
	for _, n := range slices.Concat(inner.Notes, x.listNotes()) {
		g.Notes = append(g.Notes, "feature "+u.ID+": "+n)
	}
	return g, nil
}

func (f *Feature) shownName() string {
	return cmp.Or(f.own, baseName(f.ID))
}

// about are keys of a feature that are for people and catalogues.
var about = []string{"id", "version", "name", "description", "documentationURL", "licenseURL", "keywords", "deprecated", "legacyIds"}

func (f *Feature) readKey(inner *File, name string, raw json.RawMessage) (known bool, err error) {
	switch name {
	case "id":
		f.own, err = readLine(raw)
	case "options":
		err = f.defaults(raw)
	case "installsAfter":
		f.after, err = readTexts(raw)
	case "dependsOn":
		var list []member
		list, err = members(raw)
		for _, m := range list {
			f.needed = append(f.needed, m.name)
		}
	default:
		if slices.Contains(about, name) {
			return true, nil
		}
		return inner.readSetting(name, raw)
	}
	return true, err
}

func (f *Feature) defaults(raw json.RawMessage) error {
	return eachMember(raw, func(name string, raw json.RawMessage) error {
		fields, err := members(raw)
		for _, field := range fields {
			if err == nil && field.name == "default" {
				f.Options[name], err = option(field.raw)
			}
		}
		return err
	})
}

// InOrder returns features in the order of their installation. The file's order comes first. A
// feature never precedes one that it needs or wants to follow. Otherwise they keep the order in
// which the file names them.
func InOrder(list []*Feature, order []string) ([]*Feature, error) {
	called := func(f *Feature, name string) bool { return f.ID == name || f.own != "" && f.own == baseName(name) }
	for _, f := range list {
		for _, name := range f.needed {
			if !slices.ContainsFunc(list, func(g *Feature) bool { return called(g, name) }) {
				return nil, spec.Errorf(spec.ErrUsage, "feature %s needs %s, which is not named", f.ID, name).WithHint("name it under features, too")
			}
		}
	}
	rank := func(f *Feature) int {
		if i := slices.IndexFunc(order, func(name string) bool { return called(f, name) }); i >= 0 {
			return i
		}
		return len(order)
	}
	left := slices.Clone(list)
	slices.SortStableFunc(left, func(a, b *Feature) int { return rank(a) - rank(b) })
	var done []*Feature
	for len(left) > 0 {
		waits := func(f *Feature) bool {
			return slices.ContainsFunc(slices.Concat(f.needed, f.after), func(name string) bool {
				return slices.ContainsFunc(left, func(g *Feature) bool { return g != f && called(g, name) })
			})
		}
		i := slices.IndexFunc(left, func(f *Feature) bool { return !waits(f) })
		if i < 0 {
			return nil, spec.Errorf(spec.ErrUsage, "the features %s wait for each other", quoteIDs(left))
		}
		done = append(done, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return done, nil
}

// baseName returns a feature's name in its registry: the last part, without its version.
func baseName(name string) string {
	name = path.Base(name)
	name, _, _ = strings.Cut(name, "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}

func quoteIDs(list []*Feature) string {
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = strconv.Quote(f.ID)
	}
	return strings.Join(names, ", ")
}
