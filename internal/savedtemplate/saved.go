// Package savedtemplate keeps templates that were made from sandboxes: a sandbox's root layer and home,
// from which other sandboxes start.
//
// A template is a directory under its name, either complete or missing. The files of the layer never
// change once they are written. So a template, the sandbox it was made from, and the sandboxes made from
// it share them by hard links.
package savedtemplate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/sums"
	"github.com/bothy-dev/bothy/spec"
)

// Shelf is the directory of all templates. It need not exist.
type Shelf struct{ Dir string }

// Template is the description of one template.
type Template struct {
	Version int    `json:"version"`
	Name    string `json:"name"` // NAME:TAG
	Base    string `json:"base"` // below the layer: the host's programs, or an image's digest
	// BaseName is the name of the image.
	BaseName string    `json:"base_name,omitempty"`
	Agent    string    `json:"agent"`
	From     string    `json:"from"` // the sandbox's name
	SavedAt  time.Time `json:"saved_at"`
	// Places are the mount points of host directories, and of private ones, in the sandbox. In the
	// template they are only mount points.
	Places []string `json:"places,omitempty"`
	// Docker is set if the sandbox had a Docker daemon of its own. Its data is not in the template.
	Docker bool  `json:"docker,omitempty"`
	Bytes  int64 `json:"bytes"` // layer and home

	// Broken is the reason why the template cannot be used: its description cannot be read. Then only
	// the name is known. It is never stored.
	Broken string `json:"broken,omitempty"`
}

// version of Template.
const version = 1

// Names in a template's directory.
const (
	aboutName = "template.json"
	layerName = "layer"
	homeName  = "home"
	newPrefix = ".new-"
	oldPrefix = ".old-"  // a template that is being replaced
	endPrefix = ".gone-" // a template that is removed once it has no reader
	lockName  = ".lock"
	heldName  = ".held"
)

// Begins reports whether a template's archive begins with a file of this name.
func Begins(name string) bool { return name == aboutName }

// Name checks a name and completes it with the tag ":latest" if it has none.
func Name(name string) (string, error) {
	if i := strings.LastIndexByte(name, ':'); i <= strings.LastIndexByte(name, '/') {
		name += ":latest"
	}
	path, tag, _ := strings.Cut(name, ":")
	ok := len(name) <= maxName && isWord(tag, isTagRune)
	for part := range strings.SplitSeq(path, "/") {
		ok = ok && isWord(part, isPartRune)
	}
	if !ok {
		return "", spec.Errorf(spec.ErrUsage, "%q cannot name a template", name).
			WithHint("names look like my-tools, my-tools:v2 or team/tools:v2, in small letters")
	}
	return name, nil
}

// NewName is Name for a new template. It rejects a name that starts like an image of a registry, because
// the template would hide that image.
func NewName(name string) (string, error) {
	name, err := Name(name)
	if err != nil {
		return "", err
	}
	host, rest, below := strings.Cut(name, "/")
	if below && (strings.Contains(host, ".") || host == "localhost") {
		return "", spec.Errorf(spec.ErrUsage, "%s is the name of an image at %s, not of a template made from a sandbox", name, host).
			WithHint("leave out the registry: %s", rest)
	}
	return name, nil
}

// maxName is the maximum length in bytes: the name is also that of a directory.
const maxName = 200

// isWord reports whether a part of a name has only these characters, and does not begin with a dot or a
// dash.
func isWord(s string, is func(rune) bool) bool {
	return s != "" && s[0] != '.' && s[0] != '-' && !strings.ContainsFunc(s, func(r rune) bool { return !is(r) })
}

func isPartRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

func isTagRune(r rune) bool { return isPartRune(r) || r >= 'A' && r <= 'Z' }

// slash replaces a slash in the name of a directory. Names never contain it.
const slash = "%"

func fileName(name string) string { return strings.ReplaceAll(name, "/", slash) }

// Path returns the directory of a template.
func (s Shelf) Path(name string) string { return filepath.Join(s.Dir, fileName(name)) }

// List returns all templates, sorted by name. A template that cannot be read is listed as broken.
func (s Shelf) List() ([]Template, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list templates: %w", err)
	}
	var list []Template
	for _, e := range entries {
		name := strings.ReplaceAll(e.Name(), slash, "/")
		if full, err := Name(name); err != nil || full != name {
			continue // not a template
		}
		t, err := s.loadTemplate(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			t = Template{Name: name, Broken: err.Error()}
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b Template) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Find returns the template with a name. A missing one is an error of class [spec.ErrNotFound], a broken
// one [spec.ErrConflict].
func (s Shelf) Find(name string) (Template, error) {
	name, err := Name(name)
	if err != nil {
		return Template{}, err
	}
	t, err := s.loadTemplate(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = errNone(name)
	case err != nil:
		err = spec.Errorf(spec.ErrConflict, "template %s is broken: %w", name, err).WithHint("bothy template rm %s removes it", name)
	}
	return t, err
}

// None reports whether an error of Find or Locate means that a word does not name a template: none
// exists, or the name is invalid. The word may name something else, such as an image.
func None(err error) bool {
	return errors.Is(err, spec.ErrNotFound) || errors.Is(err, spec.ErrUsage)
}

func errNone(name string) error {
	return spec.Errorf(spec.ErrNotFound, "no template %q", name).WithHint("bothy template ls shows what there is, bothy save makes one from a sandbox")
}

// Locate completes the name of an existing template, whether or not it is broken.
func (s Shelf) Locate(name string) (string, error) {
	name, err := Name(name)
	if err != nil {
		return "", err
	}
	if _, err = os.Lstat(s.Path(name)); errors.Is(err, fs.ErrNotExist) {
		err = errNone(name)
	}
	return name, err
}

// loadTemplate reads the description of a template. A missing template is fs.ErrNotExist.
func (s Shelf) loadTemplate(name string) (Template, error) {
	t, err := s.readAbout(s.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(s.Path(name)); err != nil {
			return t, err
		}
		t, err = s.readAbout(s.Path(name)) // it may have moved to its place just now
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("it has no %s", aboutName)
	case err == nil && t.Name != name:
		err = fmt.Errorf("its %s is that of %q", aboutName, t.Name)
	case err == nil && t.Base != spec.TemplateHost && image.CheckDigest(t.Base) != nil:
		err = fmt.Errorf("its %s does not name its base", aboutName)
	}
	return t, err
}

func (s Shelf) readAbout(dir string) (Template, error) {
	var t Template
	path := filepath.Join(dir, aboutName)
	if err := store.ReadJSON(path, &t); err != nil {
		return t, err
	}
	if t.Version < 1 {
		return t, fmt.Errorf("%s is of no version", path)
	}
	t.Broken = ""
	return t, nil
}

// Save makes a template from a saved root layer, a directory or "" if it has no changes, and from a
// home, from which strip removes files that do not belong in a template. It replaces one with the same
// name.
func (s Shelf) Save(t Template, from, home string, strip func(home *os.Root) error) (Template, error) {
	return s.addTemplate(t.Name, func(dir string) (Template, error) {
		if err := layer.Link(from, filepath.Join(dir, layerName)); err != nil {
			return t, err
		}
		if err := copyTree(home, filepath.Join(dir, homeName)); err != nil {
			return t, err
		}
		root, err := os.OpenRoot(filepath.Join(dir, homeName))
		if err != nil {
			return t, err
		}
		defer root.Close()
		return t, strip(root)
	})
}

// addTemplate lets fill make a template in a directory, completes it and moves it into place. Other commands
// need not wait while it is filled: a home may be large.
func (s Shelf) addTemplate(name string, fill func(dir string) (Template, error)) (Template, error) {
	dir, mine, err := s.beginNew()
	if err != nil {
		return Template{}, err
	}
	defer mine.Unlock()
	t, err := fill(dir)
	if err == nil {
		if name == "" {
			name = t.Name
		}
		t.Version, t.Name = version, name
		t.Bytes, err = store.TreeSize(dir)
	}
	if err == nil {
		err = sumHome(dir)
	}
	if err == nil {
		err = store.WriteJSON(filepath.Join(dir, aboutName), t)
	}
	if err == nil {
		err = store.SyncFS(dir)
	}
	if err == nil {
		err = s.finish(dir, name)
	}
	if err != nil {
		_ = store.RemoveTree(dir)
		return t, err
	}
	return t, nil
}

// sumHome sums the files of a template's home, or checks them if an archive has sums.
func sumHome(dir string) error {
	home, list := filepath.Join(dir, homeName), filepath.Join(dir, sums.Name)
	if _, err := os.Lstat(home); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := sums.CheckTree(list, home, nil)
	if errors.Is(err, sums.ErrNone) {
		return sums.WriteTree(list, home)
	}
	return err
}

// Verify reads a template and compares it with its sums. The error is ErrNone of package sums if it has
// none, as in older versions.
func (s Shelf) Verify(name string, read func(n int) error) error {
	return s.Use(name, func(_ Template, layer, home string) error {
		err := sums.CheckTree(filepath.Join(filepath.Dir(home), sums.Name), home, read)
		if layer == "" || err != nil && !errors.Is(err, sums.ErrNone) {
			return err
		}
		files, lerr := sums.Open(layer)
		if lerr == nil {
			lerr = files.Check(read)
			files.Close()
		}
		if lerr != nil {
			return lerr
		}
		return err
	})
}

// Remove removes a template, even a broken one. Sandboxes made from it keep their files.
func (s Shelf) Remove(name string) error {
	if _, err := s.Locate(name); err != nil {
		return err // without making a shelf
	}
	lock, err := s.lockShelf()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	name, err = s.Locate(name)
	if err != nil {
		return err
	}
	return s.discard(s.Path(name))
}

// Fill makes a new sandbox start from a template. The directories exist, except first, for the first
// save of the root layer; Fill makes it only if the template has a layer.
func (s Shelf) Fill(name, first, home string) error {
	r, err := s.openReading(name)
	if err != nil {
		return err
	}
	defer r.endReading()
	if err := layer.Link(r.layerDir(), first); err != nil {
		return fmt.Errorf("template %s: %w", r.Name, err)
	}
	if err := copyTree(r.filePath(homeName), home); err != nil {
		return fmt.Errorf("template %s: %w", r.Name, err)
	}
	if err := sums.CheckTree(r.filePath(sums.Name), home, nil); err != nil && !errors.Is(err, sums.ErrNone) {
		return (&spec.Error{Op: "use template " + r.Name, Err: fmt.Errorf("its home has %w", err)}).
			WithHint("save it again from a sandbox, or remove it: bothy template rm %s", r.Name)
	}
	now := time.Now()
	_ = os.Chtimes(r.filePath(aboutName), now, now) // only prune uses it
	return nil
}

// Used returns when a sandbox last started from a template, or else when it was stored here.
func (s Shelf) Used(t Template) time.Time {
	info, err := os.Stat(filepath.Join(s.Path(t.Name), aboutName))
	if err != nil {
		return t.SavedAt
	}
	return info.ModTime()
}

// Use calls a function with a template, the directory of its root layer ("" if it has none), and that of
// its home. They do not change meanwhile, and other commands do not wait.
func (s Shelf) Use(name string, do func(t Template, layer, home string) error) error {
	r, err := s.openReading(name)
	if err != nil {
		return err
	}
	defer r.endReading()
	return do(r.Template, r.layerDir(), r.filePath(homeName))
}

// checkFields rejects a description that Save does not write: all of it comes from an archive.
func (t Template) checkFields() error {
	bad := func(what, is string) error {
		return spec.Errorf(spec.ErrDenied, "the archive holds no template: its %s is %.100q", what, is)
	}
	if _, err := Name(t.Name); err != nil {
		return err
	}
	if t.Base == spec.TemplateHost && t.BaseName != "" {
		return bad("base, that of this machine, has a name, which", t.BaseName)
	}
	if t.Base != spec.TemplateHost && image.CheckDigest(t.Base) != nil {
		return bad("base", t.Base)
	}
	if t.BaseName != "" {
		if r, err := image.ParseReference(t.BaseName); err != nil || r.Name() != t.BaseName {
			return bad("base's name", t.BaseName)
		}
	}
	if t.Agent != "" && (len(t.Agent) > maxAgent || !isWord(t.Agent, isPartRune)) {
		return bad("agent", t.Agent)
	}
	for _, p := range t.Places {
		if !filepath.IsAbs(p) || len(p) >= unix.PathMax || len(t.Places) > maxPlaces {
			return bad("place of a mount", p)
		}
	}
	if t.From != "" && spec.CheckName(t.From) != nil {
		return bad("sandbox", t.From)
	}
	return nil
}
