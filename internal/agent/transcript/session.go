package transcript

import (
	"bytes"
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

	"github.com/bothy-dev/bothy/internal/sqlite"
	"github.com/bothy-dev/bothy/spec"
)

// Sessions are those an agent keeps in a home.
type Sessions struct {
	home     *os.Root
	patterns []string
	database *spec.AgentDatabase // or else this
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

	speaks bool // something in it was understood
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
	return &Sessions{home: root, patterns: t.Files, database: t.Database, rules: rules}, nil
}

// Close gives the home back.
func (s *Sessions) Close() { _ = s.home.Close() } // nothing is written to it

// Files are the patterns it looks for.
func (s *Sessions) Files() []string {
	if s.database != nil {
		return []string{s.database.File}
	}
	return s.patterns
}

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
	if s.database != nil {
		return s.inDatabase(ctx, maxFiles)
	}
	all := latestFirst(s.files())
	list := make([]Session, 0, len(all))
	for _, one := range all {
		if one, err := s.look(ctx, one); err == nil {
			list = append(list, one)
		}
	}
	return list, ctx.Err()
}

// Latest gives the session that was changed last; one of which nothing is understood, only
// if there is no other. The error if there is none is of class [spec.ErrNotFound].
func (s *Sessions) Latest(ctx context.Context) (Session, error) {
	all, err := s.there(ctx)
	if err != nil {
		return Session{}, err
	}
	var silent Session
	for _, one := range all {
		if s.database != nil {
			return one, nil
		}
		one, err := s.look(ctx, one)
		if err == nil && one.speaks {
			return one, nil
		}
		if err == nil && silent.File == "" {
			silent = one
		}
	}
	if err := ctx.Err(); err != nil || silent.File != "" {
		return silent, err
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

// Bounds of what is looked at: of names in directories or rows of sessions, and of sessions.
const (
	maxNames = 20_000
	maxFiles = 2_000
)

// there gives the sessions that there are, the one changed last first, before they were
// looked into: of files nobody knows the ID. Of a database the first was looked into.
func (s *Sessions) there(ctx context.Context) ([]Session, error) {
	if s.database != nil {
		return s.inDatabase(ctx, 1)
	}
	return latestFirst(s.files()), nil
}

// latestFirst sorts sessions, and leaves out what is too many.
func latestFirst(list []Session) []Session {
	slices.SortStableFunc(list, func(a, b Session) int { return b.Changed.Compare(a.Changed) })
	return list[:min(len(list), maxFiles)]
}

// files gives those the patterns fit.
func (s *Sessions) files() (list []Session) {
	g := glob{home: s.home, left: maxNames}
	for _, p := range s.patterns {
		for _, name := range g.find(".", strings.Split(p, "/")) {
			info, err := s.home.Lstat(name)
			if err == nil && info.Mode().IsRegular() {
				list = append(list, Session{Changed: info.ModTime().UTC(), Bytes: info.Size(), File: name})
			}
		}
	}
	return list
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
func (s *Sessions) look(ctx context.Context, one Session) (Session, error) {
	if s.database != nil {
		err := s.query(ctx, func(db *sqlite.DB) error {
			list := []Session{one}
			err := s.describe(db, list)
			one = list[0]
			return err
		})
		return one, err
	}
	f, err := s.open(one.File)
	if err != nil {
		return Session{}, err
	}
	defer f.Close()
	r := NewReader(s.rules, one.see)
	if _, err := io.Copy(r, io.LimitReader(untilDone{ctx, f}, headBytes)); err != nil && !errors.Is(err, errSeen) {
		return Session{}, err
	}
	one.speaks = one.speaks || r.knew
	if one.ID == "" {
		one.ID = strings.TrimSuffix(path.Base(one.File), path.Ext(one.File))
	}
	return one, nil
}

// untilDone is a file that ends with a context: whoever is inside can make one
// that nobody reads to its end.
type untilDone struct {
	ctx context.Context
	f   *os.File
}

func (u untilDone) Stat() (fs.FileInfo, error) { return u.f.Stat() }

func (u untilDone) ReadAt(p []byte, at int64) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.f.ReadAt(p, at)
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := u.f.Read(p)
	if n > 0 && n == len(p) && isZero(p) {
		u.skipHole()
	}
	return n, err
}

// skipHole goes on behind the hole of a file that zeros were read from. Nobody writes so
// many, but to have the reader wait: holes take no room on the disk.
func (u untilDone) skipHole() {
	at, err := u.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return
	}
	_, err = u.f.Seek(at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) { // there is nothing else
		_, _ = u.f.Seek(0, io.SeekEnd)
	} else if err != nil {
		_, _ = u.f.Seek(at, io.SeekStart)
	}
}

func isZero(p []byte) bool { return len(bytes.Trim(p, "\x00")) == 0 }

// see takes what describes the session from its next event. The error is errSeen when there
// is nothing left to take.
func (s *Session) see(ev spec.TranscriptEvent) error {
	s.speaks = s.speaks || ev.Kind != spec.TalkUnknown
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
	if s.ID != "" && s.Prompt != "" && s.Model != "" {
		return errSeen
	}
	return nil
}
