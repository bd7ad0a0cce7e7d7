package transcript

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// Sessions are those an agent keeps in a home.
type Sessions struct {
	home     *os.Root
	patterns []string
	rules    *Rules
}

// Session is one of them.
type Session struct {
	ID      string    `json:"id"` // what the agent calls it; the file's name where it does not say
	Began   time.Time `json:"began_at,omitzero"`
	Changed time.Time `json:"changed_at"`
	Model   string    `json:"model,omitempty"`
	Prompt  string    `json:"prompt,omitempty"` // what was asked first, or the beginning of it
	Bytes   int64     `json:"bytes"`
	File    string    `json:"file"` // relative to the home
}

// Open gives the sessions in a home, which may be changed by somebody hostile all
// the while. They are to be closed.
func Open(home string, t *spec.AgentTranscript) (*Sessions, error) {
	rules, err := ForTranscript(t)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, err
	}
	return &Sessions{home: root, patterns: t.Files, rules: rules}, nil
}

// Close gives the home back.
func (s *Sessions) Close() { _ = s.home.Close() } // nothing is written to it

// Files are the patterns it looks for.
func (s *Sessions) Files() []string { return s.patterns }

// CheckFiles judges patterns of files.
func CheckFiles(patterns []string) error {
	if len(patterns) == 0 {
		return spec.Errorf(spec.ErrUsage, "files are missing")
	}
	for _, p := range patterns {
		_, err := path.Match(p, "")
		if err != nil || !filepath.IsLocal(p) || path.Clean(p) != p || p == "." || strings.Count(p, "/") >= maxSteps {
			return spec.Errorf(spec.ErrUsage, "files: %q is no pattern of paths below the home directory", p)
		}
	}
	return nil
}

// List gives all sessions, the one changed last first.
func (s *Sessions) List(ctx context.Context) ([]Session, error) {
	files := s.files()
	list := make([]Session, 0, len(files))
	for _, f := range files {
		if one, err := s.look(ctx, f); err == nil {
			list = append(list, one)
		}
	}
	return list, ctx.Err()
}

// Latest gives the session that was changed last. The error if there is none is of
// class [spec.ErrNotFound].
func (s *Sessions) Latest(ctx context.Context) (Session, error) {
	for _, f := range s.files() {
		if one, err := s.look(ctx, f); err == nil {
			return one, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return Session{}, err
	}
	return Session{}, spec.Errorf(spec.ErrNotFound, "there is no session")
}

// Find gives the session of an ID, or of the only one that begins so.
func (s *Sessions) Find(ctx context.Context, id string) (Session, error) {
	list, err := s.List(ctx)
	if err != nil {
		return Session{}, err
	}
	var found []Session
	for _, one := range list {
		if one.ID == id {
			return one, nil
		}
		if id != "" && strings.HasPrefix(one.ID, id) {
			found = append(found, one)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Session{}, spec.Errorf(spec.ErrNotFound, "there is no session %q", id)
	}
	return Session{}, spec.Errorf(spec.ErrUsage, "%d sessions begin with %q", len(found), id)
}

// file is one that a pattern fits.
type file struct {
	name    string
	changed time.Time
	size    int64
}

// Bounds of what is looked at: of names in directories, and of files.
const (
	maxNames = 20_000
	maxFiles = 2_000
)

// files gives those the patterns fit, the one changed last first.
func (s *Sessions) files() (list []file) {
	g := glob{home: s.home, left: maxNames}
	for _, p := range s.patterns {
		for _, name := range g.find(".", strings.Split(p, "/")) {
			info, err := s.home.Lstat(name)
			if err == nil && info.Mode().IsRegular() {
				list = append(list, file{name, info.ModTime(), info.Size()})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b file) int { return b.changed.Compare(a.changed) })
	return list[:min(len(list), maxFiles)]
}

// glob is a search for files. However many directories there are, and links among
// them, it ends.
type glob struct {
	home *os.Root
	left int // names that may still be looked at
}

// find gives the paths that fit, link or not. What cannot be read has none.
func (g *glob) find(dir string, steps []string) (found []string) {
	for _, name := range g.names(dir, steps[0]) {
		at := path.Join(dir, name)
		if len(steps) == 1 {
			found = append(found, at)
			continue
		}
		if g.left--; g.left <= 0 {
			break
		}
		found = append(found, g.find(at, steps[1:])...)
	}
	return found
}

// names gives those of a directory that fit one step of a pattern.
func (g *glob) names(dir, step string) (names []string) {
	if !strings.ContainsAny(step, `*?[\`) {
		return []string{step}
	}
	// Nothing that waits for somebody to write to it.
	d, err := g.home.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer d.Close()
	for g.left > 0 {
		batch, err := d.Readdirnames(512)
		g.left -= len(batch)
		for _, name := range batch {
			if ok, _ := path.Match(step, name); ok {
				names = append(names, name)
			}
		}
		if err != nil {
			break
		}
	}
	return names
}

// open opens a file for reading, if it is a regular one. A link is followed as far
// as it stays in the home.
func (s *Sessions) open(name string) (*os.File, error) {
	f, err := s.home.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(err, fs.ErrInvalid)
	}
	return f, nil
}

// Bounds of how far a session is read to describe it.
const (
	headBytes = 256 << 10
	maxPrompt = 200
)

var errSeen = errors.New("seen enough")

// look reads the beginning of a session to describe it.
func (s *Sessions) look(ctx context.Context, from file) (Session, error) {
	f, err := s.open(from.name)
	if err != nil {
		return Session{}, err
	}
	defer f.Close()
	one := Session{Changed: from.changed.UTC(), Bytes: from.size, File: from.name}
	r := NewReader(s.rules, func(ev spec.TranscriptEvent) error {
		one.see(ev)
		if one.ID != "" && one.Prompt != "" && one.Model != "" {
			return errSeen
		}
		return nil
	})
	if _, err := io.Copy(r, io.LimitReader(untilDone{ctx, f}, headBytes)); err != nil && !errors.Is(err, errSeen) {
		return Session{}, err
	}
	if one.ID == "" {
		one.ID = strings.TrimSuffix(path.Base(from.name), path.Ext(from.name))
	}
	return one, nil
}

// untilDone is a file that ends with a context: whoever is inside can make one
// that nobody reads to its end.
type untilDone struct {
	ctx context.Context
	f   *os.File
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.f.Read(p)
}

// see takes what describes the session from its next event.
func (s *Session) see(ev spec.TranscriptEvent) {
	if s.ID == "" {
		s.ID = ev.Session
	}
	if s.Began.IsZero() {
		s.Began = ev.Time
	}
	if s.Model == "" {
		s.Model = ev.Model
	}
	if s.Prompt == "" && ev.Kind == spec.TalkMessage && ev.Role == spec.RoleUser {
		s.Prompt = strings.ToValidUTF8(ev.Text[:min(len(ev.Text), maxPrompt)], "")
	}
}
