// Package sqlite reads rows of tables from SQLite files (sqlite.org/fileformat2.html) that an attacker
// may have written, and may still be writing. It has no SQL, writes nothing and takes no locks.
//
// It reads the state of the last commit, even if that is only in a write-ahead log. It does not keep
// writers out: [DB.Check] reports afterwards whether everything that was read is of one state.
//
// Everything is checked before it is used, and all work is bounded: pages read, depth of trees, columns,
// frames of the log. A page that is reached twice is an error, so nothing goes in circles. It rejects
// tables without rowids, virtual tables, and texts in UTF-16.
package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// File is an opened file.
type File interface {
	io.ReaderAt
	Stat() (fs.FileInfo, error)
}

// DB is a database in the state of its last commit. It is not safe for concurrent use.
type DB struct {
	file   File
	before fs.FileInfo // of the file at the time of Open
	wal    *wal

	pageSize, usable int // bytes of a page, and how many of them are used
	pages            uint32
	left             int // how many may still be read
}

var (
	// ErrNoTable is returned if the table does not exist.
	ErrNoTable = errors.New("the table does not exist")
	// ErrChanged reports that another program wrote during the read. The caller may retry.
	ErrChanged = errors.New("it was changed while it was read")
	// ErrUnfinished reports that a transaction is being written into the file, or that its writer has
	// died. The caller may retry, for some time.
	ErrUnfinished = errors.New("a transaction is not finished, or was not undone after its writer died")
	// ErrLarge is returned for a value that is too large to be read.
	ErrLarge = errors.New("the value is too large")
)

// Limits of reading one database.
const (
	maxPages = 256 << 10
	maxBytes = 1 << 30
)

const (
	headerSize = 100
	magic      = "SQLite format 3\x00"
)

// Open reads the header of a database and its write-ahead log. log is the file that ends with -wal, or
// nil. An empty database has no tables. The error is ErrChanged if the database cannot be read because a
// program writes meanwhile.
func Open(file, log File) (*DB, error) {
	db := &DB{file: file}
	var err error
	if db.before, err = settled(file); err != nil {
		return nil, err
	}
	if db.wal, err = readWAL(log); err != nil {
		return nil, err
	}
	if db.wal.pages == 0 && db.before.Size() == 0 {
		return db, nil
	}
	if err := db.readHeader(); err != nil {
		if changed := db.Check(nil); errors.Is(changed, ErrChanged) {
			err = changed // the log started again, and the header's position in it now belongs to another page
		}
		return nil, err
	}
	return db, nil
}

// tick is longer than the granularity of the kernel's clock: a file that is written twice within one
// tick keeps its time.
const tick = 20 * time.Millisecond

// settled returns the status of a file, in such a way that every later change is noticed.
func settled(f File) (fs.FileInfo, error) {
	info, err := f.Stat()
	if err == nil && time.Since(info.ModTime()).Abs() < tick {
		time.Sleep(tick)
		info, err = f.Stat()
	}
	return info, err
}

func (db *DB) readHeader() error {
	var head [headerSize]byte
	from, at := db.file, int64(0)
	if frame, ok := db.wal.frames[1]; ok {
		from, at = db.wal.file, frame
	}
	if _, err := from.ReadAt(head[:], at); err != nil {
		return fmt.Errorf("the header: %w", cutOff(err))
	}
	if string(head[:len(magic)]) != magic {
		return errors.New("it is not an SQLite database")
	}
	db.pageSize = int(binary.BigEndian.Uint16(head[16:]))
	if db.pageSize == 1 {
		db.pageSize = 64 << 10
	}
	db.usable = db.pageSize - int(head[20])
	switch {
	case !isPageSize(db.pageSize) || db.usable < 480:
		return fmt.Errorf("the header has pages of %d bytes, %d of them usable", db.pageSize, db.usable)
	case db.wal.pages > 0 && db.wal.pageSize != db.pageSize:
		return fmt.Errorf("its pages have %d bytes, those of its log %d", db.pageSize, db.wal.pageSize)
	case head[18] > 2 || head[19] > 2:
		return fmt.Errorf("its format has the version %d, %d to be read, which is not known", head[18], head[19])
	case !bytes.Equal(head[21:24], []byte{64, 32, 32}):
		return errors.New("the header has fractions of pages that there cannot be")
	case binary.BigEndian.Uint32(head[56:]) > 1:
		return errors.New("its texts are in UTF-16, which is not read")
	}
	if db.pages = db.wal.pages; db.pages == 0 {
		db.pages = uint32(min(db.before.Size()/int64(db.pageSize), 1<<32-2))
	}
	db.left = min(maxPages, maxBytes/db.pageSize)
	return nil
}

func isPageSize(n int) bool { return n >= 512 && n <= 64<<10 && n&(n-1) == 0 }

// readPage reads the last committed state of a page.
func (db *DB) readPage(n uint32) ([]byte, error) {
	if n == 0 || n > db.pages {
		return nil, fmt.Errorf("page %d does not exist, only %d pages", n, db.pages)
	}
	if db.left--; db.left < 0 {
		return nil, fmt.Errorf("more than %d pages were to be read", min(maxPages, maxBytes/db.pageSize))
	}
	from, at := db.file, int64(n-1)*int64(db.pageSize)
	if frame, ok := db.wal.frames[n]; ok {
		from, at = db.wal.file, frame
	}
	p := make([]byte, db.pageSize)
	if _, err := from.ReadAt(p, at); err != nil {
		return nil, fmt.Errorf("page %d: %w", n, cutOff(err))
	}
	return p[:db.usable], nil
}

// cutOff turns an early end of a file into io.ErrUnexpectedEOF.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Check reports whether everything read so far is of one state: otherwise the error is ErrChanged or
// ErrUnfinished. journal is the file that ends with -journal, opened after the last read, or nil.
//
// A commit in the meantime goes to the end of the log, which is not read any more. It can affect the
// result only if it goes into the file itself, or if the log starts again.
func (db *DB) Check(journal File) error {
	info, err := db.file.Stat()
	if err != nil {
		return err
	}
	same, err := db.wal.isSameRound()
	if err != nil {
		return err
	}
	if !same || info.Size() != db.before.Size() || !info.ModTime().Equal(db.before.ModTime()) {
		return ErrChanged
	}
	if journal == nil {
		return nil
	}
	var head [len(journalMagic)]byte
	if _, err := journal.ReadAt(head[:], 0); err == nil && string(head[:]) == journalMagic {
		return ErrUnfinished
	} else if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// journalMagic is at the start of a journal as long as the journal is needed.
const journalMagic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
