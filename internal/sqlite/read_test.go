package sqlite

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sqlite3 runs a script with the real SQLite in a directory, using Python, and returns its output. A
// script that leaves with os._exit leaves the log behind.
func sqlite3(t *testing.T, dir, script string) string {
	t.Helper()
	if !python() {
		t.Skip("skipped: this machine has no python3 with sqlite3 to make databases with")
	}
	c := exec.CommandContext(t.Context(), "python3", "-c", prelude+script)
	c.Dir, c.Stderr = dir, os.Stderr
	out, err := c.Output()
	must(t, err)
	return string(out)
}

var python = sync.OnceValue(func() bool { return exec.Command("python3", "-c", "import sqlite3").Run() == nil })

const prelude = `
import json, os, sqlite3, sys
def connect(*pragmas):
    c = sqlite3.connect("x.db", isolation_level=None, timeout=30)
    c.execute("pragma synchronous=off")
    for p in pragmas: c.execute("pragma " + p)
    return c
def leave():
    sys.stdout.flush()
    os._exit(0)
def plain(v):
    if isinstance(v, bytes): return "x" + v.hex()
    if isinstance(v, float): return int(v) if v == int(v) and abs(v) < 2**53 else "f%.17g" % v
    return v
def dump(c, table, *columns):
    for row in c.execute("select rowid,%s from %s order by rowid" % (",".join(columns), table)):
        print(json.dumps([plain(v) for v in row], ensure_ascii=False))
`

// opened opens the file x.db in a directory.
func opened(t *testing.T, dir string) (db *DB, err error) {
	t.Helper()
	files := make([]File, 2)
	for i, name := range []string{"x.db", "x.db-wal"} {
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) && i > 0 {
			continue
		}
		must(t, err)
		t.Cleanup(func() { f.Close() })
		files[i] = f
	}
	return Open(files[0], files[1])
}

// dump returns the rows of a table like the Python function of the same name.
func dump(t *testing.T, dir, table string, columns ...string) string {
	t.Helper()
	db, err := opened(t, dir)
	must(t, err)
	out, err := rows(db, table, columns...)
	must(t, err)
	must(t, db.Check(nil))
	return out
}

func rows(db *DB, table string, columns ...string) (string, error) {
	var out strings.Builder
	err := db.Read(table, columns, func(r *Row) error {
		line := []any{r.ID}
		for i := range columns {
			v, err := r.Value(i)
			if err != nil {
				return err
			}
			line = append(line, plain(v))
		}
		b, err := json.Marshal(line)
		out.Write(append(b, '\n'))
		return err
	})
	return out.String(), err
}

func plain(v any) any {
	switch v := v.(type) {
	case []byte:
		return "x" + hex.EncodeToString(v)
	case float64:
		if v != math.Trunc(v) || math.Abs(v) >= 1<<53 {
			return fmt.Sprintf("f%.17g", v)
		}
		return int64(v) // the real SQLite stores it so
	}
	return v
}

// same compares JSON lines, whatever the spaces in them.
func same(t *testing.T, got, want string) {
	t.Helper()
	want = strings.ReplaceAll(want, ", ", ",")
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("line %d is %.200s, not %.200s", i+1, g[i], w[i])
		}
	}
	t.Fatalf("there are %d lines, not %d", len(g), len(w))
}

// TestRead compares the results with those of SQLite.
func TestRead(t *testing.T) {
	for _, tt := range []struct{ name, pragmas, script string }{
		{"values", "", `
c.execute("create table t(a, b text, c real, d blob)")
for i in [0, 1, -1, 127, -128, 128, 32767, -32768, 8388607, -8388608, 2**31-1, -2**31, 2**47-1, -2**47, 2**62, -2**63, 2**63-1]:
    c.execute("insert into t values(?,?,?,?)", (i, str(i), i/3, b"\x00\xff"*3))
c.execute("insert into t values(null, '', 0.5, x'')")
c.execute("insert into t values('größe', 'x', -1e300, zeroblob(3000))")`},
		{"overflow", "", `
c.execute("create table t(a, b, c, d)")
for n in list(range(4020, 4140)) + list(range(60000, 60010)) + [10**6]:
    c.execute("insert into t values(?,?,?,?)", ("x"*n, n, "y"*(n%977), b"z"*(n%13)))`},
		{"a deep tree", "page_size=512", `
c.execute("create table t(a, b, c, d)")
c.execute("begin")
for n in range(30000): c.execute("insert into t values(?,?,?,?)", (n*n, "x"*(n%97), None, n/7))
c.execute("delete from t where rowid%3=1")
c.execute("update t set b=b||'longer'||b where rowid%5=1")
c.execute("commit")`},
		{"small pages", "page_size=512", `
c.execute("create table t(a, b, c, d)")
for n in range(0, 3000, 7): c.execute("insert into t values(?,?,?,?)", ("x"*n, n, n, n))`},
		{"large pages", "page_size=65536", `
c.execute("create table t(a, b, c, d)")
for n in range(0, 300000, 17011): c.execute("insert into t values(?,?,?,?)", ("x"*n, n, n, n))`},
		{"odd IDs", "", `
c.execute("create table t(a, b, c, d)")
for i in [-2**63, -5, 0, 7, 2**40, 2**63-1]: c.execute("insert into t(rowid,a) values(?,?)", (i, i))`},
		{"moving pages", "auto_vacuum=full", `
c.execute("create table o(x)"); c.execute("create table t(a, b, c, d)")
for n in range(2000): c.execute("insert into o values(zeroblob(500))"); c.execute("insert into t values(?,?,?,?)", (n, "x"*n, n, n))
c.execute("delete from o"); c.execute("vacuum")`},
		{"names of the ID", "", `
c.execute("create table t(a integer primary key, b, c, d)")
for i in [3, 1, 2]: c.execute("insert into t values(?,?,?,?)", (i, i, i, i))`},
		{"a name of the ID by a constraint", "", `
c.execute("create table t(b, \"a\" INTEGER, c, d, constraint k primary key (A))")
for i in [3, 1, 2]: c.execute("insert into t values(?,?,?,?)", (i, i, i, i))`},
		{"no name of the ID", "", `
c.execute("create table t(a int primary key, b, c integer, d, primary_key, unique(b, c))")
for i in [3, 1, None]: c.execute("insert into t(a,b,c,d) values(?,?,?,?)", (i, i, i, i))`},
		{"columns added and dropped", "", `
c.execute("create table t(z, a, y)")
c.execute("insert into t values(1, 2, 3)")
for s in ["add b", "add c text", "drop y", "add d", "rename z to y"]: c.execute("alter table t %s" % s.replace("add", "add column").replace("drop", "drop column"))
c.execute("insert into t values(1, 2, 3, 4, 5)")`},
		{"all that may be written", "", `
c.execute('''create table if not exists "t" ( -- (
  "not ""it""" varchar(10, 2) default (1,2 is not null) check ("not ""it""" <> ')'), /* , */ [x,y] int,
  a text collate nocase, v as (a || 'v'), b generated always as (a || 'b') stored, ` + "`c` numeric default 'it''s,' not null" + `, w as (a) virtual,
  d, constraint "u" unique (a, b), check (a <> 'x,'), foreign key (d) references t(a))'''.replace("(1,2 is not null)", "(1)"))
c.execute("insert into t(a, d) values('one', 2)")`},
		{"strict", "", `
c.execute("create table t(a any, b text, c int, d real) strict")
c.execute("insert into t values('one', 'x', 3, 4)")`},
		{"many tables", "page_size=512", `
for i in range(300): c.execute("create table many%d(%s)" % (i, ", ".join("column%d" % j for j in range(i%40 + 1))))
c.execute("create index i on many1(column1)"); c.execute("create view v as select * from many1")
c.execute("create table t(a, b, c, d)"); c.execute("insert into t values(1, 2, 3, 4)")`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, mode := range []string{"delete", "wal"} {
				dir := t.TempDir()
				want := sqlite3(t, dir, fmt.Sprintf("c = connect(%q or 'user_version', 'journal_mode=%s')\n%s\ndump(c, 't', 'a', 'b', 'c', 'd')\nleave()", tt.pragmas, mode, tt.script))
				if want == "" {
					t.Fatal("SQLite has read nothing")
				}
				same(t, dump(t, dir, "t", "a", "b", "c", "d"), want)
				same(t, dump(t, dir, "T", "A", "B", "C", "D"), want)
			}
		})
	}
}

// TestFiles checks files that SQLite has made with testdata/make.py.
func TestFiles(t *testing.T) {
	for name, want := range map[string]string{
		"plain": "[1,\"one\",1]\n[2,\"two\",null]\n",
		"wal":   "[1,\"changed\",1]\n[3,\"" + strings.Repeat("long", 500) + "\",3]\n",
	} {
		dir := t.TempDir()
		for _, end := range []string{"", "-wal"} {
			if b, err := os.ReadFile("testdata/" + name + ".db" + end); err == nil {
				must(t, os.WriteFile(filepath.Join(dir, "x.db"+end), b, 0o600))
			}
		}
		same(t, dump(t, dir, "t", "a", "b"), want)
	}
}

func TestRefused(t *testing.T) {
	const fill = "\nfor i in range(3): c.execute(\"insert into t values('x','y')\")"
	for _, tt := range []struct{ name, script, table, column, says string }{
		{"no rowid", `c.execute("create table t(a primary key, b) without rowid")`, "t", "a", "table t: a table WITHOUT ROWID is not read"},
		{"another table", `c.execute("create table t(a, b)")` + fill, "u", "a", "table u: the table does not exist"},
		{"another column", `c.execute("create table t(a, b)")` + fill, "t", "c", "table t: it has no column c"},
		{"a computed column", `c.execute("create table t(a, b, c as (a))")`, "t", "c", "table t: it has no column c that is kept"},
		{"a view", `c.execute("create table t(a, b)"); c.execute("create view v as select * from t")`, "v", "a", "the table does not exist"},
		{"a virtual table", `c.execute("create virtual table v using fts5(a)")`, "v", "a", "table v: it is virtual"},
		{"UTF-16", `c.execute("pragma encoding='UTF-16'"); c.execute("create table t(a, b)")` + fill, "t", "a", "UTF-16"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			sqlite3(t, dir, "c = connect()\n"+tt.script)
			db, err := opened(t, dir)
			if err == nil {
				_, err = rows(db, tt.table, tt.column)
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("it says %v", err)
			}
			if missing := tt.says == "the table does not exist" || tt.table == "u"; missing != errors.Is(err, ErrNoTable) {
				t.Errorf("of another class: %v", err)
			}
		})
	}
}

// memory is a file in memory.
type memory struct {
	*strings.Reader
	os.FileInfo
}

func (m memory) Stat() (os.FileInfo, error) { return m.FileInfo, nil }

// fake makes a file from bytes, as old as the package.
func fake(t testing.TB, b []byte) File {
	t.Helper()
	info, err := os.Stat("db.go")
	if err != nil {
		t.Fatal(err)
	}
	return memory{strings.NewReader(string(b)), sized{info, int64(len(b))}}
}

type sized struct {
	os.FileInfo
	size int64
}

func (s sized) Size() int64 { return s.size }

func TestNoDatabase(t *testing.T) {
	good, err := os.ReadFile("testdata/plain.db")
	must(t, err)
	db, err := Open(fake(t, nil), nil)
	must(t, err)
	if _, err := rows(db, "t"); !errors.Is(err, ErrNoTable) {
		t.Errorf("one of no bytes: %v", err)
	}
	with := func(at int, b ...byte) []byte { return slices.Replace(slices.Clone(good), at, at+len(b), b...) }
	for says, b := range map[string][]byte{
		"unexpected EOF":                        good[:99],
		"not an SQLite database":                []byte(strings.Repeat("x", 4096)),
		"pages of 511 bytes":                    with(16, 1, 255),
		"pages of 0 bytes":                      with(16, 0, 0),
		"512 bytes, 257 of them usable":         with(20, 255),
		"version 2, 3 to be read":               with(18, 2, 3),
		"fractions of pages":                    with(21, 65),
		"page 1 does not belong to a table (2)": with(100, 2),
		"page 1 has no room for 65535":          with(103, 255, 255),
		"has cell 0 where it cannot be":         with(108, 0, 100),
		"page 2 does not exist, only 1":         good[:1000],
	} {
		db, err := Open(fake(t, b), nil)
		if err == nil {
			_, err = rows(db, "t", "a")
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("in place of %q it says %v", says, err)
		}
	}
}

// TestCircles checks trees whose pages form a circle, or that describe themselves wrongly.
func TestCircles(t *testing.T) {
	dir := t.TempDir()
	sqlite3(t, dir, `
c = connect("page_size=512")
c.execute("create table t(a, b)")
for i in range(200): c.execute("insert into t values(?, ?)", (i, "x"*50))
c.execute("insert into t values('large', ?)", ("y"*5000,))`)
	good, err := os.ReadFile(filepath.Join(dir, "x.db"))
	must(t, err)
	page := func(b []byte, n int) []byte { return b[(n-1)*512 : n*512] }
	if page(good, 2)[0] != interior {
		t.Fatal("the root is no inner page")
	}
	for says, spoil := range map[string]func(b []byte){
		"page 2 is in the table twice":   func(b []byte) { copy(page(b, 2)[8:], "\x00\x00\x00\x02") },
		"page 3 is in the table twice":   func(b []byte) { copy(page(b, 2)[8:], "\x00\x00\x00\x03") },
		"page 0 does not exist":          func(b []byte) { copy(page(b, 2)[8:], "\x00\x00\x00\x00") },
		"after row":                      func(b []byte) { copy(page(b, 3)[8:], page(b, 3)[10:12]) },
		"page 4294967295 does not exist": func(b []byte) { overflow(b, 512, 0xffffffff) },
		"is in the table twice":          func(b []byte) { overflow(b, 512, 2) },
	} {
		b := slices.Clone(good)
		spoil(b)
		db, err := Open(fake(t, b), nil)
		must(t, err)
		if _, err := rows(db, "t", "a", "b"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("in place of %q it says %v", says, err)
		}
	}
}

// overflow changes the continuation page of the first page that is full of y.
func overflow(b []byte, size int, to uint32) {
	for at := 0; at < len(b); at += size {
		if strings.HasPrefix(string(b[at+4:]), strings.Repeat("y", size-4)) {
			copy(b[at:], []byte{byte(to >> 24), byte(to >> 16), byte(to >> 8), byte(to)})
			return
		}
	}
}

// TestSpoiled reads databases with one changed byte, and checks that the read ends.
func TestSpoiled(t *testing.T) {
	for _, name := range []string{"plain.db", "wal.db", "wal.db-wal"} {
		good, err := os.ReadFile("testdata/" + name)
		must(t, err)
		for at := range good {
			for _, c := range []byte{0, 0x80, 0xff, good[at] + 1} {
				b := slices.Clone(good)
				b[at] = c
				if strings.HasSuffix(name, "-wal") {
					file, err := os.ReadFile("testdata/wal.db")
					must(t, err)
					readAll(t, file, b)
				} else {
					readAll(t, b, nil)
				}
			}
		}
	}
}

// readAll reads everything and ignores the results.
func readAll(t testing.TB, file, log []byte) {
	t.Helper()
	var wal File
	if log != nil {
		wal = fake(t, log)
	}
	db, err := Open(fake(t, file), wal)
	if err != nil {
		return
	}
	n := 0
	_ = db.Read("t", []string{"a", "b"}, func(r *Row) error {
		if n++; n > len(file)+len(log) {
			t.Error("there are more rows than bytes")
			return io.EOF
		}
		_, err := r.Value(0)
		_, err1 := r.Value(1)
		return errors.Join(err, err1)
	})
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"plain", "wal"} {
		file, err := os.ReadFile("testdata/" + name + ".db")
		if err != nil {
			f.Fatal(err)
		}
		log, _ := os.ReadFile("testdata/" + name + ".db-wal")
		f.Add(file, log)
	}
	f.Fuzz(func(t *testing.T, file, log []byte) {
		readAll(t, file, nil)
		readAll(t, file, log)
	})
}

func FuzzColumns(f *testing.F) {
	f.Add("CREATE TABLE t(a INTEGER PRIMARY KEY, `b` text default (1), [c] as (x) stored, primary key(a)) without rowid")
	f.Fuzz(func(_ *testing.T, sql string) { _, _ = columnsOf(sql) })
}

func TestVarint(t *testing.T) {
	for _, tt := range []struct {
		b    string
		want uint64
		rest int
		ok   bool
	}{
		{"\x00", 0, 0, true},
		{"\x7f\x01", 127, 1, true},
		{"\x81\x00", 128, 0, true},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", math.MaxUint64, 1, true},
		{"\x80\x80\x80\x80\x80\x80\x80\x80\x05", 5, 0, true},
		{"", 0, 0, false},
		{"\x80", 0, 0, false},
		{"\xff\xff\xff\xff\xff\xff\xff\xff", 0, 0, false},
	} {
		if v, rest, ok := varint([]byte(tt.b)); ok != tt.ok || ok && (v != tt.want || len(rest) != tt.rest) {
			t.Errorf("%x: %d, %d left, %v", tt.b, v, len(rest), ok)
		}
	}
}
