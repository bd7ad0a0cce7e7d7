// Package database keeps the tasks of all projects in one SQLite database. It runs in a process of
// its own that package book starts and talks to.
//
// A change is on the disk when it is committed. A writer holds SQLite's lock from before it reads
// the tasks; a reader waits for no other process.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/spec"
)

// lockName is the name of a file that is locked while the database is opened. Only one process at a time
// can create it and switch it to a write-ahead log.
const lockName = "lock"

// patience is how long a change waits for others, which take milliseconds.
const patience = 30 * time.Second

// db is an open database.
type db struct {
	path string
	file os.FileInfo // of path when it was opened
	sql  *sql.DB     // with one connection
	sole bool        // no other process can open it meanwhile
}

// open opens the database in a directory, and makes both if they are missing.
func open(ctx context.Context, dir string) (*db, error) {
	d := &db{path: filepath.Join(dir, book.FileName)}
	err := makeDir(dir)
	if err == nil {
		err = checkLocal(dir)
	}
	if err != nil {
		return nil, d.explain("open the tasks", err)
	}
	opening, err := store.AwaitLock(ctx, filepath.Join(dir, lockName))
	if err != nil {
		return nil, d.explain("open the tasks", err)
	}
	defer opening.Unlock()
	if d.file, err = makeFile(d.path); err != nil {
		return nil, d.explain("open the tasks", err)
	}
	err = d.connect(ctx, source(d.path))
	if codeOf(err) == sqlite3.SQLITE_IOERR {
		// An exclusive connection needs no shared-memory file, for which a full disk has no room.
		// Then the tasks can at least be read.
		d.sole = true
		err = d.connect(ctx, source(d.path, "locking_mode(exclusive)"))
	}
	if err != nil {
		return nil, d.explain("open the tasks", err)
	}
	return d, nil
}

func (d *db) connect(ctx context.Context, source string) (err error) {
	if d.sql, err = sql.Open("sqlite", source); err != nil {
		return err
	}
	d.sql.SetMaxOpenConns(1)
	if err = patiently(ctx, func() error { return d.prepare(ctx) }); err != nil {
		_ = d.sql.Close()
	}
	return err
}

// makeDir makes the directory durably: its name, too, must survive a crash.
func makeDir(dir string) error {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return store.SyncDir(filepath.Dir(dir))
}

// makeFile makes the file, because SQLite would make it readable for every user. It must not be
// called for an open database: closing a file drops SQLite's locks.
func makeFile(path string) (os.FileInfo, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		info, err = f.Stat()
		return info, errors.Join(err, f.Close(), store.SyncDir(filepath.Dir(path)))
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	// If the file is read-only, SQLite would make files beside it. No process could write them
	// later, when the database is writable again.
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK|unix.W_OK, unix.AT_EACCESS); err != nil {
		return nil, fmt.Errorf("%s may not be written: %w", path, err)
	}
	return info, nil
}

// source returns the data source name. A change begins with the lock, and is on the disk when it ends.
// The busy timeout is short, because patiently waits longer.
func source(path string, pragmas ...string) string {
	pragmas = append([]string{"busy_timeout(200)", "synchronous(full)", "temp_store(memory)", "trusted_schema(off)"}, pragmas...)
	q := url.Values{"_txlock": {"immediate"}, "_pragma": pragmas}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// prepare checks that the database is ours, and makes the tables of an empty one.
func (d *db) prepare(ctx context.Context) error {
	var app, now, objects int64
	for _, ask := range []struct {
		query string
		to    *int64
	}{{"PRAGMA application_id", &app}, {"PRAGMA user_version", &now}, {"SELECT count(*) FROM sqlite_schema", &objects}} {
		if err := d.sql.QueryRowContext(ctx, ask.query).Scan(ask.to); err != nil {
			return err
		}
	}
	switch {
	case app == application && now > version:
		return spec.CheckVersion("the database of tasks", int(now), version)
	case app == application && now == version:
		return nil
	case app != 0 || now != 0 || objects != 0:
		return spec.Errorf(spec.ErrConflict, "%s is not a database of tasks", d.path).WithHint("move it away")
	}
	var log string // the actual mode, if it is not wal
	if err := d.sql.QueryRowContext(ctx, "PRAGMA journal_mode=wal").Scan(&log); err != nil {
		return err
	}
	if log != "wal" {
		return hintElsewhere(spec.Errorf(nil, "no write-ahead log can be made of %s, but %q alone: its file system has no memory that processes share", d.path, log))
	}
	tx, err := d.sql.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // of uncommitted changes
	_, err = tx.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", application, version))
	if err != nil {
		return err
	}
	return tx.Commit()
}

// close closes the database. If no other process has it open, everything is in the one file afterwards.
func (d *db) close() { _ = d.sql.Close() }

// wasMoved reports whether the path is missing, or names another file by now.
func (d *db) wasMoved() bool {
	now, err := os.Lstat(d.path)
	return err != nil || !os.SameFile(now, d.file)
}

// patiently repeats f as long as other processes have the database locked.
func patiently(ctx context.Context, f func() error) error {
	for began := time.Now(); ; {
		err := f()
		if codeOf(err) != sqlite3.SQLITE_BUSY {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(began) > patience {
			return spec.Errorf(spec.ErrConflict, "another process has been changing tasks for %v", patience).
				WithHint("see whether a bothy was stopped in the middle of it (ps -ef | grep %s)", book.Argv0)
		}
	}
}

// codeOf returns SQLite's primary code of an error.
func codeOf(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return sqlite3.SQLITE_OK
}

// mayWrite is the hint for a file that cannot be opened or written.
const mayWrite = "nothing was changed; see that you may write in %s, and the files in it, and that there is room on its disk"

// damaged returns the error for a database that SQLite cannot read.
func (d *db) damaged(op string, err error) error {
	return (&spec.Error{Op: op, Err: fmt.Errorf("%s is damaged: %w", d.path, err)}).
		WithHint("nothing was changed; move the directory %s away and import the last export, or a recovered copy: docs/guide/tasks.md tells how", filepath.Dir(d.path))
}

// explain adds the operation, and a hint for the user.
func (d *db) explain(op string, err error) error {
	e := &spec.Error{Op: op, Err: err}
	switch codeOf(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return d.damaged(op, err)
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		return e.WithHint("nothing was changed; see that there is room on the disk of %s", filepath.Dir(d.path))
	case sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOLFS: // locks that do not work, or no support for large files
		return hintElsewhere(e)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return e.WithHint(mayWrite, filepath.Dir(d.path))
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return e.WithHint(mayWrite, filepath.Dir(d.path))
	}
	return e
}
