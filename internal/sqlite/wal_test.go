package sqlite

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestUncommitted checks that uncommitted frames of the log are ignored, even if the log has no others.
func TestUncommitted(t *testing.T) {
	dir := t.TempDir()
	want := sqlite3(t, dir, `
c = connect("journal_mode=wal", "wal_autocheckpoint=0", "cache_size=1", "cache_spill=1")
c.execute("create table t(a, b)")
c.execute("insert into t values('one', 1)")
dump(c, "t", "a", "b")
size = os.path.getsize("x.db-wal")
c.execute("begin")
for i in range(1000): c.execute("insert into t values(?, zeroblob(1000))", (i,))
c.execute("update t set a='other' where b=1")
assert os.path.getsize("x.db-wal") > size + 100000
leave()`)
	same(t, dump(t, dir, "t", "a", "b"), want)
}

// TestStaleLog checks that frames of the previous round, after the valid ones, are ignored.
func TestStaleLog(t *testing.T) {
	for _, checkpoint := range []string{"passive", "full", "restart", "truncate"} {
		dir := t.TempDir()
		want := sqlite3(t, dir, `
c = connect("journal_mode=wal", "wal_autocheckpoint=0")
c.execute("create table t(a, b)")
for i in range(300): c.execute("insert into t values(?, zeroblob(1000))", (i,))
c.execute("delete from t where a%2")
c.execute("pragma wal_checkpoint(`+checkpoint+`)")
c.execute("insert into t values('last', 1)")
dump(c, "t", "a", "b")
leave()`)
		same(t, dump(t, dir, "t", "a", "b"), want)
	}
}

// TestShrunk checks a database that became smaller in its log.
func TestShrunk(t *testing.T) {
	dir := t.TempDir()
	want := sqlite3(t, dir, `
c = connect("auto_vacuum=incremental", "journal_mode=wal", "wal_autocheckpoint=0")
c.execute("create table o(x)"); c.execute("create table t(a, b)")
for i in range(300): c.execute("insert into o values(zeroblob(1000))")
for i in range(300): c.execute("insert into t values(?, zeroblob(1000))", (i,))
c.execute("pragma wal_checkpoint(truncate)")
c.execute("drop table o")
c.execute("pragma incremental_vacuum").fetchall()
dump(c, "t", "a", "b")
leave()`)
	same(t, dump(t, dir, "t", "a", "b"), want)
}

// TestCutLog checks that the frames of a log before its end, or before a changed byte, still count.
func TestCutLog(t *testing.T) {
	dir := t.TempDir()
	sizes := strings.Fields(sqlite3(t, dir, `
c = connect("page_size=512", "journal_mode=wal", "wal_autocheckpoint=0")
c.execute("create table t(a, b)")
c.execute("pragma wal_checkpoint(truncate)")
for i in range(20):
    c.execute("insert into t values(?, zeroblob(?))", (i, i*100))
    print(os.path.getsize("x.db-wal"))
leave()`))
	log, err := os.ReadFile(filepath.Join(dir, "x.db-wal"))
	must(t, err)
	file, err := os.ReadFile(filepath.Join(dir, "x.db"))
	must(t, err)
	count := func(log []byte) (n int) {
		db, err := Open(fake(t, file), fake(t, log))
		must(t, err)
		must(t, db.Read("t", []string{"a", "b"}, func(r *Row) error {
			v, err := r.Value(0)
			if v != int64(n) {
				t.Errorf("row %d has %v", n, v)
			}
			n++
			return err
		}))
		return n
	}
	done, next := 0, 0
	_, err = fmt.Sscan(sizes[0], &next)
	must(t, err)
	for at := 0; at <= len(log); at += 8 {
		if at >= next {
			if done++; done < len(sizes) {
				_, err = fmt.Sscan(sizes[done], &next)
				must(t, err)
			} else {
				next = len(log) + 1
			}
		}
		if got := count(log[:at]); got != done {
			t.Fatalf("of %d bytes of the log %d rows are read, not %d", at, got, done)
		}
		if at < len(log) && at != 8 { // this is only a counter
			spoiled := bytes.Clone(log)
			spoiled[at] ^= 0x40
			if got := count(spoiled); got > done {
				t.Fatalf("with byte %d spoiled %d rows are read, not %d", at, got, done)
			}
		}
	}
	if done != 20 {
		t.Errorf("%d rows were seen", done)
	}
}

func TestLogRefused(t *testing.T) {
	file, err := os.ReadFile("testdata/wal.db")
	must(t, err)
	log, err := os.ReadFile("testdata/wal.db-wal")
	must(t, err)
	// signed recomputes the header's checksum, so that it is accepted.
	signed := func(spoil func(b []byte)) []byte {
		b := bytes.Clone(log)
		spoil(b)
		sum := checksum{order: binary.LittleEndian}
		sum.addBytes(b[:24])
		binary.BigEndian.PutUint32(b[24:], sum.s0)
		binary.BigEndian.PutUint32(b[28:], sum.s1)
		return b
	}
	if _, err := Open(fake(t, file), fake(t, signed(func(b []byte) { b[7]++ }))); err == nil || !strings.Contains(err.Error(), "format 3007001") {
		t.Error(err)
	}
	// One frame with pages of another size.
	other := signed(func(b []byte) { binary.BigEndian.PutUint32(b[8:], 1024) })[:walHead]
	frame := make([]byte, frameHead+1024)
	binary.BigEndian.PutUint32(frame, 2)
	binary.BigEndian.PutUint32(frame[4:], 2)
	copy(frame[8:], other[16:24])
	sum := checksum{order: binary.LittleEndian}
	sum.addBytes(other[:24])
	sum.addBytes(frame[:8])
	sum.addBytes(frame[frameHead:])
	binary.BigEndian.PutUint32(frame[16:], sum.s0)
	binary.BigEndian.PutUint32(frame[20:], sum.s1)
	if _, err := Open(fake(t, file), fake(t, append(other, frame...))); err == nil || !strings.Contains(err.Error(), "its pages have 512 bytes, those of its log 1024") {
		t.Error(err)
	}
}

// TestCheck checks that Check notices a writer during the read, if the read may have seen its changes.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		mode, then string
		want       error
	}{
		{"wal", "c.execute(\"insert into t values('two')\")", nil}, // to the end of the log
		{"wal", "c.execute('pragma wal_checkpoint(passive)')", ErrChanged},
		{"wal", "c.execute('pragma wal_checkpoint(restart)'); c.execute(\"insert into t values('two')\")", ErrChanged},
		{"delete", "c.execute(\"insert into t values('two')\")", ErrChanged},
		{"delete", "c.execute('select * from t')", nil},
	} {
		dir := t.TempDir()
		begin := "c = connect('wal_autocheckpoint=0', 'journal_mode=" + tt.mode + "')\n"
		sqlite3(t, dir, begin+"c.execute('create table t(a)')\nc.execute(\"insert into t values('one')\")\nleave()")
		db, err := opened(t, dir)
		must(t, err)
		must(t, db.Check(nil))
		sqlite3(t, dir, begin+tt.then+"\nleave()")
		if err := db.Check(nil); !errors.Is(err, tt.want) {
			t.Errorf("%s, %s: %v", tt.mode, tt.then, err)
		}
	}
	dir := t.TempDir()
	sqlite3(t, dir, `
c = connect("cache_size=1", "cache_spill=1")
c.execute("create table t(a, b)")
c.execute("begin")
for i in range(1000): c.execute("insert into t values(?, zeroblob(1000))", (i,))
leave()`)
	db, err := opened(t, dir)
	must(t, err)
	journal, err := os.Open(filepath.Join(dir, "x.db-journal"))
	must(t, err)
	defer journal.Close()
	if err := db.Check(journal); !errors.Is(err, ErrUnfinished) {
		t.Errorf("its writer died: %v", err)
	}
	must(t, db.Check(fake(t, nil)))
	must(t, db.Check(fake(t, make([]byte, 512)))) // its state if journals are kept
}

// restarting is a log that starts again while its header is read.
type restarting struct {
	File
	restart func()
}

func (r *restarting) ReadAt(b []byte, at int64) (int, error) {
	if len(b) == headerSize {
		r.restart()
	}
	return r.File.ReadAt(b, at)
}

// TestRestarted checks that Open returns ErrChanged if the log starts again while the database is
// opened.
func TestRestarted(t *testing.T) {
	dir := t.TempDir()
	const begin = "c = connect('page_size=512', 'journal_mode=wal', 'wal_autocheckpoint=0')\n"
	sqlite3(t, dir, begin+`
c.execute("create table t(a, b)")
c.execute("pragma wal_checkpoint(truncate)")
c.execute("create table u(a)") # page 1 is in the log's first frame
leave()`)
	open := func(name string) File {
		f, err := os.Open(filepath.Join(dir, name))
		must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	log := &restarting{open("x.db-wal"), func() {
		sqlite3(t, dir, begin+`
c.execute("pragma wal_checkpoint(restart)")
for i in range(20): c.execute("insert into t values(?, zeroblob(400))", (i,))
leave()`)
	}}
	if _, err := Open(open("x.db"), log); !errors.Is(err, ErrChanged) {
		t.Error(err)
	}
}

// TestRacing checks that reads that pass Check always have the same sum while a writer moves amounts
// between rows.
func TestRacing(t *testing.T) {
	if !python() {
		t.Skip("skipped: no python3 with sqlite3")
	}
	for _, mode := range []string{"wal", "delete", "persist"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			c := exec.CommandContext(t.Context(), "python3", "-c", prelude+`
import random, time
c = connect("page_size=512", "journal_mode=`+mode+`", "wal_autocheckpoint=20", "cache_size=5", "cache_spill=1")
c.execute("create table t(a, b)")
c.execute("begin")
for i in range(300): c.execute("insert into t values(1000, ?)", ("x"*(i*7%600),))
c.execute("commit")
print("ready", flush=True)
n = 0
while True:
    c.execute("begin immediate")
    for i in range(20):
        x = random.randrange(1000)
        c.execute("update t set a=a-?, b=? where rowid=?", (x, "y"*random.randrange(900), random.randrange(1, 301)))
        c.execute("update t set a=a+?, b=? where rowid=?", (x, "y"*random.randrange(900), random.randrange(1, 301)))
    c.execute("commit")
    n += 1
    if n % 50 == 0: time.sleep(random.random()*0.3)
`)
			c.Dir, c.Stderr = dir, os.Stderr
			out, err := c.StdoutPipe()
			must(t, err)
			must(t, c.Start())
			defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
			if !bufio.NewScanner(out).Scan() {
				t.Fatal("it has not begun")
			}
			good, bad := 0, 0
			for end := time.Now().Add(20 * time.Second); good < 20 && time.Now().Before(end); {
				sum, n, err := total(t, dir)
				switch {
				case errors.Is(err, ErrChanged) || errors.Is(err, ErrUnfinished):
					bad++
				case err != nil || sum != 300_000 || n != 300:
					t.Fatalf("%d in %d rows, %v", sum, n, err)
				default:
					good++
				}
			}
			t.Logf("%d times read, %d times disturbed", good, bad)
			if good == 0 {
				t.Error("it could never be read")
			}
		})
	}
}

func total(t *testing.T, dir string) (sum, n int64, err error) {
	t.Helper()
	db, err := opened(t, dir)
	if err != nil {
		return 0, 0, err
	}
	err = db.Read("t", []string{"a"}, func(r *Row) error {
		v, err := r.Value(0)
		a, _ := v.(int64)
		sum += a
		n++
		return err
	})
	var journal File
	if f, err := os.Open(filepath.Join(dir, "x.db-journal")); err == nil {
		defer f.Close()
		journal = f
	}
	if check := db.Check(journal); check != nil {
		return 0, 0, check
	}
	return sum, n, err
}
