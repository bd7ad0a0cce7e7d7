package transcript

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/sqlite"
	"github.com/bothy-dev/bothy/spec"
)

// CheckDatabase checks the description of a database.
func CheckDatabase(t *spec.AgentTranscript) error {
	d := t.Database
	fail := func(format string, args ...any) error {
		return spec.Errorf(spec.ErrUsage, "database: "+format, args...)
	}
	switch {
	case len(t.Files) > 0:
		return fail("sessions are kept in files or in a database, not in both")
	case len(t.Session) > 0:
		return fail("session is known without a path")
	case !filepath.IsLocal(d.File) || path.Clean(d.File) != d.File || d.File == ".":
		return fail("%q is not a path below the home directory", d.File)
	case d.Sessions.Table == "" || d.Sessions.ID == "" || d.Sessions.Time == "" || d.Sessions.Data != "":
		return fail("sessions need table, id and time, and have no data")
	}
	for name, of := range map[string]*spec.AgentTable{"messages": &d.Messages, "parts": d.Parts} {
		if of != nil && (of.Table == "" || of.ID == "" || of.In == "" || of.Data == "") {
			return fail("%s need table, id, in and data", name)
		}
	}
	return nil
}

// While a database is being written, the reader retries it: the numbers of attempts and the interval.
const (
	changedTries = 20
	brokenTries  = 3 // a broken database may be half written
	tryEvery     = 100 * time.Millisecond
)

// queryDatabase reads the database at one moment. It calls ask again if a writer disturbed that. If the database
// is missing, the error is of class fs.ErrNotExist.
func (s *Sessions) queryDatabase(ctx context.Context, ask func(*sqlite.DB) error) error {
	for try := 1; ; try++ {
		err := s.readOnce(ctx, ask)
		tries := brokenTries
		if errors.Is(err, sqlite.ErrChanged) || errors.Is(err, sqlite.ErrUnfinished) {
			tries = changedTries
		}
		switch {
		case err == nil || errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil:
			return err
		case errors.Is(err, sqlite.ErrNoTable):
			return spec.Errorf(spec.ErrNotFound, "the database %s: %w", s.database.File, err)
		case try == tries:
			return fmt.Errorf("the database %s: %w", s.database.File, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(tryEvery):
		}
	}
}

func (s *Sessions) readOnce(ctx context.Context, ask func(*sqlite.DB) error) error {
	file, done, err := s.beside(ctx, "")
	if err != nil {
		return err
	}
	defer done()
	log, done, err := s.beside(ctx, "-wal")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer done()
	db, err := sqlite.Open(file, log)
	if err != nil {
		return err
	}
	err = ask(db)
	journal, done, jerr := s.beside(ctx, "-journal") // now, not before
	if jerr != nil && !errors.Is(jerr, fs.ErrNotExist) {
		return jerr
	}
	defer done()
	if cerr := db.Check(journal); cerr != nil {
		return cerr // the result is not reliable
	}
	return err
}

// beside opens the database, or the file next to it with a suffix.
func (s *Sessions) beside(ctx context.Context, end string) (file sqlite.File, done func(), err error) {
	f, err := s.open(s.database.File + end)
	if errors.Is(err, fs.ErrInvalid) {
		err = fmt.Errorf("%q is not a regular file", path.Base(s.database.File+end))
	}
	if err != nil {
		return nil, func() {}, err
	}
	return untilDone{ctx, f}, func() { f.Close() }, nil
}

// inDatabase returns the sessions, the one changed last first. It reads the content of the first look
// sessions.
func (s *Sessions) inDatabase(ctx context.Context, look int) (list []Session, err error) {
	err = s.queryDatabase(ctx, func(db *sqlite.DB) error {
		list = []Session{}
		of := s.database.Sessions
		err := readTable(db, of, func(r *fields) error {
			switch {
			case r.in != "":
				return nil
			case len(list) == maxNames:
				return fmt.Errorf("table %s: more than %d sessions", of.Table, maxNames)
			}
			list = append(list, Session{ID: r.id, Changed: timeOf(numbered(r.time)), File: s.database.File})
			return nil
		})
		if err != nil {
			return err
		}
		list = latestFirst(list)
		return s.describe(db, list[:min(len(list), look)])
	})
	if errors.Is(err, fs.ErrNotExist) {
		return []Session{}, nil
	}
	return list, err
}

// fields are the columns of a table that spec.AgentTable describes.
type fields struct {
	id, in string
	time   any
	row    *sqlite.Row
	data   int // index of the column
}

// readTable reads a table. Columns that are not described are empty.
func readTable(db *sqlite.DB, of spec.AgentTable, yield func(*fields) error) error {
	var names []string
	place := func(name string) int {
		if name == "" {
			return -1
		}
		names = append(names, name)
		return len(names) - 1
	}
	id, in, when, data := place(of.ID), place(of.In), place(of.Time), place(of.Data)
	return db.Read(of.Table, names, func(r *sqlite.Row) error {
		var err error
		value := func(at int) (v any) {
			if at >= 0 && err == nil {
				v, err = r.Value(at)
			}
			return v
		}
		f := &fields{time: value(when), row: r, data: data}
		var ok, also bool
		f.id, ok = columnID(value(id))
		f.in, also = columnID(value(in))
		if err == nil && (!ok || !also || f.id == "") {
			err = fmt.Errorf("table %s: row %d has no valid ID, or no valid ID of its parent", of.Table, r.ID)
		}
		if err != nil {
			return err
		}
		return yield(f)
	})
}

// columnID returns the ID in a column: a text or a number. ok is false for other values.
func columnID(v any) (id string, ok bool) {
	switch v := v.(type) {
	case nil:
		return "", true
	case string:
		return v, len(v) <= maxID
	case int64:
		return strconv.FormatInt(v, 10), true
	}
	return "", false
}

// documentText returns the document in a row, or the reason why there is none.
func (f *fields) documentText() (text, cause string, err error) {
	if f.row.Size > maxLine {
		return "", causeLong, nil
	}
	v, err := f.row.Value(f.data)
	text, ok := v.(string)
	if !ok {
		cause = causeNoJSON
	}
	return text, cause, err
}

// databaseStamp identifies a state of the database, without reading it. It is empty if the next
// state might get the same stamp.
func (s *Sessions) databaseStamp() (stamp string) {
	var b strings.Builder
	for _, end := range []string{"", "-wal"} {
		info, err := s.home.Stat(s.database.File + end)
		if err != nil {
			fmt.Fprint(&b, errors.Is(err, os.ErrNotExist))
			continue
		}
		if time.Since(info.ModTime()).Abs() < settles {
			return ""
		}
		fmt.Fprint(&b, info.Size(), info.ModTime().UnixNano(), " ")
	}
	return b.String()
}

// settles is longer than the time in which two writes can get the same modification time.
const settles = 50 * time.Millisecond
