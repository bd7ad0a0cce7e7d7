package sqlite

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

type column struct {
	name    string
	at      int  // its index in a record
	id      bool // another name for the row's ID, which the record does not have
	virtual bool // computed, and in no record
}

// Read calls yield with each row of a table, in the order of their IDs, which is that of
// insertion. The values of the row are indexed by their place in columns. Read returns an error
// of yield. It returns ErrNoTable if the table does not exist.
func (db *DB) Read(table string, columns []string, yield func(*Row) error) error {
	root, sql, err := db.findTable(table)
	if err != nil {
		return fmt.Errorf("table %s: %w", table, err)
	}
	all, err := columnsOf(sql)
	if err != nil {
		return fmt.Errorf("table %s: %w", table, err)
	}
	cols := make([]column, len(columns))
	for i, name := range columns {
		at := slices.IndexFunc(all, func(c column) bool { return strings.EqualFold(c.name, name) })
		if at < 0 || all[at].virtual {
			return fmt.Errorf("table %s: it has no column %s that is kept", table, name)
		}
		cols[i] = all[at]
	}
	var own error // an error may be the caller's
	err = db.walkTable(root, cols, func(r *Row) error {
		own = yield(r)
		return own
	})
	if err != nil && own == nil {
		err = fmt.Errorf("table %s: %w", table, err)
	}
	return err
}

func (db *DB) walkTable(root uint32, cols []column, yield func(*Row) error) error {
	s := &scan{db: db, seen: map[uint32]struct{}{}}
	s.yield = func(r *Row) error {
		r.cols = cols
		return yield(r)
	}
	return s.walkTree(root, 0)
}

// schema has the needed columns of the table on the first page, which lists all tables.
var schema = []column{{at: 0}, {at: 1}, {at: 3}, {at: 4}}

// findTable returns the root page of a table, and its CREATE statement.
func (db *DB) findTable(table string) (root uint32, sql string, err error) {
	if db.pages == 0 {
		return 0, "", ErrNoTable
	}
	found := false
	err = db.walkTable(1, schema, func(r *Row) error {
		kind, err := r.Value(0)
		name, err1 := r.Value(1)
		if s, _ := name.(string); err != nil || err1 != nil || kind != "table" || !strings.EqualFold(s, table) {
			return errors.Join(err, err1)
		}
		place, err := r.Value(2)
		made, err1 := r.Value(3)
		if err != nil || err1 != nil {
			return errors.Join(err, err1)
		}
		at, ok := place.(int64)
		text, also := made.(string)
		if !ok || !also || at < 1 || at > math.MaxUint32 || found {
			return errors.New("it is virtual, or its description is broken")
		}
		root, sql, found = uint32(at), text, true
		return nil
	})
	if err == nil && !found {
		err = ErrNoTable
	}
	return root, sql, err
}

// columnsOf reads the columns from CREATE TABLE, as SQLite keeps it.
func columnsOf(sql string) ([]column, error) {
	parts, options, err := definitions(sql)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(options, func(t token) bool { return t.isOneOf("WITHOUT") }) {
		return nil, errors.New("a table WITHOUT ROWID is not read")
	}
	var cols []column
	var integers []bool
	at := 0
	for _, part := range parts {
		if part[0].isOneOf("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN") {
			if i := soleKeyColumn(part, cols); i >= 0 {
				cols[i].id = integers[i]
			}
			continue
		}
		integer := len(part) > 1 && part[1].isOneOf("INTEGER")
		c := column{name: part[0].text, at: at}
		c.id = integer && hasWord(part, "PRIMARY")
		c.virtual = hasWord(part, "AS") && !hasWord(part, "STORED")
		if !c.virtual {
			at++
		}
		if len(cols) == maxColumns {
			return nil, errors.New("it has too many columns")
		}
		cols, integers = append(cols, c), append(integers, integer)
	}
	return cols, nil
}

// soleKeyColumn returns the index of the only column of the primary key in a definition, or -1. If its type is
// INTEGER and its value is missing, its value is the row's ID.
func soleKeyColumn(part []token, cols []column) int {
	at := slices.IndexFunc(part, func(t token) bool { return t.isOneOf("PRIMARY") })
	if at < 0 || at+4 >= len(part) || slices.ContainsFunc(part, func(t token) bool { return t.isOneOf(",") }) {
		return -1
	}
	return slices.IndexFunc(cols, func(c column) bool { return strings.EqualFold(c.name, part[at+3].text) })
}

// hasWord reports whether a definition contains a word outside of parentheses.
func hasWord(part []token, word string) bool {
	depth := 0
	for _, t := range part {
		switch {
		case t.isOneOf("("):
			depth++
		case t.isOneOf(")"):
			depth--
		case depth == 0 && t.isOneOf(word):
			return true
		}
	}
	return false
}
