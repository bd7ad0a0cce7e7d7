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

// Sessions are an agent's sessions in a home.
type Sessions struct {
	home     *os.Root
	patterns []string
	database *spec.AgentDatabase // or a database
	rules    *Rules
}

// Session is one session.
type Session struct {
	ID      string    `json:"id"` // the agent's name for it, or otherwise the file's name
	Began   time.Time `json:"began_at,omitzero"`
	Changed time.Time `json:"changed_at"`
	Model   string    `json:"model,omitempty"`
	Prompt  string    `json:"prompt,omitempty"` // the first prompt, or its beginning
	Bytes   int64     `json:"bytes"`
	File    string    `json:"file"` // relative to the home

	speaks bool // some event in it was understood
}

// Open returns the sessions in a home, which a hostile process may change at any time. The
// caller closes them.
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

// Close closes the home.
func (s *Sessions) Close() { _ = s.home.Close() } // nothing is written to it

// Files returns the patterns of its files.
func (s *Sessions) Files() []string {
	if s.database != nil {
		return []string{s.database.File}
	}
	return s.patterns
}

// CheckFiles checks patterns of files.
func CheckFiles(patterns []string) error {
	if len(patterns) == 0 {
		return spec.Errorf(spec.ErrUsage, "files are missing")
	}
	for _, p := range patterns {
		_, err := path.Match(p, "")
		if err != nil || !filepath.IsLocal(p) || path.Clean(p) != p || p == "." || strings.Count(p, "/") >= maxSteps {
			return spec.Errorf(spec.ErrUsage, "files: %q is not a pattern of paths below the home directory", p)
		}
	}
	return nil
}

// List returns all sessions, the one changed last first.
func (s *Sessions) List(ctx context.Context) ([]Session, error) {
	if s.database != nil {
		return s.inDatabase(ctx, maxFiles)
	}
	all := latestFirst(s.matchFiles())
	list := make([]Session, 0, len(all))
	for _, one := range all {
		if one, err := s.describeOne(ctx, one); err == nil {
			list = append(list, one)
		}
	}
	return list, ctx.Err()
}

// Latest returns the session changed last. It returns one in which nothing is understood
// only if no other exists. Without a session the error is of class [spec.ErrNotFound].
func (s *Sessions) Latest(ctx context.Context) (Session, error) {
	all, err := s.findSessions(ctx)
	if err != nil {
		return Session{}, err
	}
	var silent Session
	for _, one := range all {
		if s.database != nil {
			return one, nil
		}
		one, err := s.describeOne(ctx, one)
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
	return Session{}, spec.Errorf(spec.ErrNotFound, "no session found")
}

// Find returns the session with an ID, or the only one whose ID has that prefix.
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
		return Session{}, spec.Errorf(spec.ErrNotFound, "no session named %q", id)
	}
	return Session{}, spec.Errorf(spec.ErrUsage, "%d sessions begin with %q", len(found), id)
}

// Bounds of a search: names in directories or rows of sessions, and sessions.
const (
	maxNames = 20_000
	maxFiles = 2_000
)

// findSessions returns the sessions, the one changed last first, without reading their content, so the ID of a
// file is unknown. In a database it reads the first session.
func (s *Sessions) findSessions(ctx context.Context) ([]Session, error) {
	if s.database != nil {
		return s.inDatabase(ctx, 1)
	}
	return latestFirst(s.matchFiles()), nil
}

// latestFirst sorts sessions, and drops those beyond maxFiles.
func latestFirst(list []Session) []Session {
	slices.SortStableFunc(list, func(a, b Session) int { return b.Changed.Compare(a.Changed) })
	return list[:min(len(list), maxFiles)]
}

func (s *Sessions) matchFiles() (list []Session) {
	g := glob{home: s.home, left: maxNames}
	for _, p := range s.patterns {
		for _, name := range g.findPaths(".", strings.Split(p, "/")) {
			info, err := s.home.Lstat(name)
			if err == nil && info.Mode().IsRegular() {
				list = append(list, Session{Changed: info.ModTime().UTC(), Bytes: info.Size(), File: name})
			}
		}
	}
	return list
}

// glob is a search for files. It ends for any number of directories, and of links between them.
type glob struct {
	home *os.Root
	left int // names left to read
}

// findPaths returns the matching paths, links or not. An unreadable directory has none.
func (g *glob) findPaths(dir string, steps []string) (found []string) {
	for _, name := range g.matchNames(dir, steps[0]) {
		at := path.Join(dir, name)
		if len(steps) == 1 {
			found = append(found, at)
			continue
		}
		if g.left--; g.left <= 0 {
			break
		}
		found = append(found, g.findPaths(at, steps[1:])...)
	}
	return found
}

// matchNames returns the names in a directory that match one step of a pattern.
func (g *glob) matchNames(dir, step string) (names []string) {
	if !strings.ContainsAny(step, `*?[\`) {
		return []string{step}
	}
	// O_NONBLOCK: a pipe must not block the search.
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

// open opens a regular file for reading. It follows a link only within the home.
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

// Bounds for reading a session to describe it.
const (
	headBytes = 256 << 10
	maxPrompt = 200
)

var errSeen = errors.New("seen enough")

// describeOne reads the beginning of a session to describe it.
func (s *Sessions) describeOne(ctx context.Context, one Session) (Session, error) {
	if s.database != nil {
		err := s.queryDatabase(ctx, func(db *sqlite.DB) error {
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
	r := NewReader(s.rules, one.noteEvent)
	if _, err := io.Copy(r, io.LimitReader(untilDone{ctx, f}, headBytes)); err != nil && !errors.Is(err, errSeen) {
		return Session{}, err
	}
	one.speaks = one.speaks || r.knew
	if one.ID == "" {
		one.ID = strings.TrimSuffix(path.Base(one.File), path.Ext(one.File))
	}
	return one, nil
}

// untilDone is a file whose reads end with a context: a process inside can make a file too
// large to read to its end.
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

// skipHole skips the rest of a hole after zeros were read. So many zeros only serve to keep the reader
// busy: holes take no space on the disk.
func (u untilDone) skipHole() {
	at, err := u.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return
	}
	_, err = u.f.Seek(at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) { // the rest is a hole
		_, _ = u.f.Seek(0, io.SeekEnd)
	} else if err != nil {
		_, _ = u.f.Seek(at, io.SeekStart)
	}
}

func isZero(p []byte) bool { return len(bytes.Trim(p, "\x00")) == 0 }

// noteEvent updates the session's description from its next event. The error is errSeen when the description
// is complete.
func (s *Session) noteEvent(ev spec.TranscriptEvent) error {
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
