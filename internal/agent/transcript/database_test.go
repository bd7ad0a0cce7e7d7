package transcript

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/spec"
)

// keeper is a process that writes a database with the real SQLite, through Python. It
// commits each statement separately.
type keeper struct {
	t    *testing.T
	home string
	to   *json.Encoder
	from *bufio.Scanner
	quit func() // as if it were killed
}

// keeps starts a keeper, with the tables of a database in a journal mode.
func keeps(t *testing.T, home, mode string) *keeper {
	t.Helper()
	k := empty(t, home, mode)
	k.tables()
	return k
}

// empty starts a keeper without tables.
func empty(t *testing.T, home, mode string) *keeper {
	t.Helper()
	if exec.CommandContext(t.Context(), "python3", "-c", "import sqlite3").Run() != nil {
		t.Skip("skipped: this machine has no python3 with sqlite3 to make databases with")
	}
	must(t, os.MkdirAll(filepath.Join(home, "share"), 0o700))
	c := exec.CommandContext(t.Context(), "python3", "-c", `
import json, sqlite3, sys
c = sqlite3.connect("share/x.db", isolation_level=None)
c.execute("pragma synchronous=off")
for line in sys.stdin:
    c.execute(*json.loads(line))
    print("done", flush=True)`)
	c.Dir, c.Stderr = home, os.Stderr
	in, err := c.StdinPipe()
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	k := &keeper{t: t, home: home, to: json.NewEncoder(in), from: bufio.NewScanner(out)}
	k.quit = func() { _ = c.Process.Kill(); _ = c.Wait() }
	t.Cleanup(k.quit)
	k.do("pragma journal_mode=" + mode)
	return k
}

func (k *keeper) tables() {
	k.t.Helper()
	k.do("create table talks(id text primary key, mother text, changed integer not null)")
	k.do("create table says(id text primary key, talk text not null, doc text not null)")
	k.do("create table bits(id integer primary key, say text, at integer, doc text)")
}

func (k *keeper) do(sql string, values ...any) {
	k.t.Helper()
	if values == nil {
		values = []any{}
	}
	must(k.t, k.to.Encode([]any{sql, values}))
	if !k.from.Scan() {
		k.t.Fatalf("%s was not done", sql)
	}
}

// talk inserts a session with one message of the user.
func (k *keeper) talk(id string, mother any, changed int64) {
	k.t.Helper()
	k.do("insert into talks values(?,?,?)", id, mother, changed)
	k.do("insert into says values(?,?,?)", "u"+id, id, `{"role":"user","model":"m"}`)
	k.do("insert into bits(say,at,doc) values(?,?,?)", "u"+id, changed, `{"type":"text","text":"hello from `+id+`"}`)
}

// inDatabase describes the tables of keeps.
const inDatabase = `{"database":{"file":"share/x.db",
	"sessions":{"table":"talks","id":"id","in":"mother","time":"changed"},
	"messages":{"table":"says","id":"id","in":"talk","data":"doc"},
	"parts":{"table":"bits","id":"id","in":"say","time":"at","data":"doc"}},
	"time":"time","rules":[
	{"when":{"row":"message","message.error":"*"},"kind":"error","text":"message.error"},
	{"when":{"row":"message"},"kind":"ignore"},
	{"when":{"part.type":"text","message.role":"user"},"kind":"message","role":"user","id":"id","model":"message.model","text":"part.text"},
	{"when":{"part.type":"text","message.role":"agent"},"kind":"message","role":"agent","text":"part.text"},
	{"when":{"part.type":"tool"},"kind":"tool_call","tool":"part.tool"},
	{"when":{"part.type":"tool","part.state":"done|failed"},"kind":"tool_result","text":"part.out"},
	{"when":{"part.type":"list"},"each":"part.list","rules":[{"when":{"x":"*"},"kind":"message","role":"agent","text":"x"}]}]}`

func inDatabaseOf(t *testing.T, home string) *Sessions {
	t.Helper()
	var a spec.AgentTranscript
	must(t, json.Unmarshal([]byte(inDatabase), &a))
	must(t, CheckDatabase(&a))
	s, err := Open(home, &a)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// read returns the events of a session.
func read(t *testing.T, s *Sessions, id string) (all []spec.TranscriptEvent) {
	t.Helper()
	one, err := s.Find(t.Context(), id)
	must(t, err)
	must(t, s.Read(t.Context(), one, func(ev spec.TranscriptEvent) error { all = append(all, ev); return nil }))
	return all
}

func TestDatabase(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			home := t.TempDir()
			s := inDatabaseOf(t, home)
			none := func(what string) {
				t.Helper()
				if list, err := s.List(t.Context()); err != nil || list == nil || len(list) > 0 {
					t.Errorf("%s: %v, %v", what, list, err)
				}
				if _, err := s.Latest(t.Context()); !errors.Is(err, spec.ErrNotFound) {
					t.Errorf("%s: %v", what, err)
				}
			}
			none("an empty home")
			k := keeps(t, home, mode)
			none("an empty database")

			k.talk("one", nil, 1767323045000)
			k.talk("two", nil, 1767409445000)
			k.talk("old", nil, 1700000000000)
			k.talk("helper", "two", 1800000000000)
			if got := ids(t, s); !slices.Equal(got, []string{"two", "one", "old"}) {
				t.Errorf("there are %v", got)
			}
			one, err := s.Latest(t.Context())
			must(t, err)
			if one.ID != "two" || one.Prompt != "hello from two" || one.Model != "m" || one.Began.Year() != 2026 || one.File != "share/x.db" || one.Bytes < 60 || one.Changed.UnixMilli() != 1767409445000 {
				t.Errorf("the latest is %+v", one)
			}
			if _, err := s.Find(t.Context(), "helper"); !errors.Is(err, spec.ErrNotFound) {
				t.Errorf("the one of a helper: %v", err)
			}
			// Any amount of earlier or later text does not matter.
			for range 40 {
				k.do(`insert into says values(null, 'two', '{"role":"agent"}')`)
			}
			if _, err := s.Latest(t.Context()); err == nil || !strings.Contains(err.Error(), "table says: row 5 has no valid ID") {
				t.Errorf("messages without IDs: %v", err)
			}
			k.do("update says set id='n'||rowid where id is null")
			k.do("insert into bits(say,at,doc) select id, 1, '{\"type\":\"text\",\"text\":\"late\"}' from says where id like 'n%'")
			if one, err := s.Latest(t.Context()); err != nil || one.Prompt != "hello from two" || one.Bytes < 40*50 {
				t.Errorf("with much in it: %+v, %v", one, err)
			}
			k.do("delete from bits where say like 'n%'")
			k.do("delete from says where id like 'n%'")
			// The message comes after its parts, even if other rows are written in between.
			k.do(`insert into says values('a', 'one', '{"role":"agent","error":"no way"}')`)
			k.talk("other", nil, 0)
			for _, doc := range []any{
				`{"type":"text","text":"it is"}`, `{"type":"text","text":""}`, `{"type":"tool","tool":"T","state":"done","out":"o"}`, `{"type":"odd"}`, `{"type"`, nil,
				`{"type":"list","list":[{"x":"a"},{"x":"b"},{"y":"c"}]}`,
			} {
				k.do("insert into bits(say,at,doc) values('a',1767323046000,?)", doc)
			}
			got := regexp.MustCompile(`"raw":{"id":"\d+"`).ReplaceAllString(lines(t, read(t, s, "one")), `"raw":{"id":"ID"`)
			want := `{"kind":"message","time":"2026-01-02T03:04:05Z","session":"one","role":"user","id":"1","text":"hello from one","model":"m"}
{"kind":"message","time":"2026-01-02T03:04:06Z","session":"one","role":"agent","text":"it is"}
{"kind":"tool_call","time":"2026-01-02T03:04:06Z","session":"one","tool":"T"}
{"kind":"tool_result","time":"2026-01-02T03:04:06Z","session":"one","text":"o"}
{"kind":"unknown","time":"2026-01-02T03:04:06Z","session":"one","cause":"no rule","raw":{"id":"ID","message":{"error":"no way","role":"agent"},"part":{"type":"odd"},"row":"part","time":1767323046000}}
{"kind":"unknown","session":"one","text":"{\"type\"","cause":"no JSON"}
{"kind":"unknown","session":"one","cause":"no JSON"}
{"kind":"message","time":"2026-01-02T03:04:06Z","session":"one","role":"agent","text":"a"}
{"kind":"message","time":"2026-01-02T03:04:06Z","session":"one","role":"agent","text":"b"}
{"kind":"unknown","time":"2026-01-02T03:04:06Z","session":"one","cause":"no rule","raw":{"y":"c"}}
{"kind":"error","session":"one","text":"no way"}
`
			if got != want {
				t.Errorf("told is\n%s\nwanted was\n%s", got, want)
			}
			// It need not run.
			k.quit()
			if again := read(t, s, "one"); len(again) != 11 {
				t.Errorf("behind it is told\n%s", lines(t, again))
			}
		})
	}
}

func TestFollowDatabase(t *testing.T) {
	home := t.TempDir()
	s := inDatabaseOf(t, home)
	texts, stop := follower(t, s, Session{}, true)
	time.Sleep(2 * pollEvery)
	k := keeps(t, home, "wal")
	time.Sleep(lookEvery)
	k.talk("one", nil, 1)
	expect(t, texts, "message hello from one")
	k.do(`insert into says values('a', 'one', '{"role":"agent"}')`)
	add := func(id int, doc string) { k.do("insert into bits values(?,'a',1,?)", id, doc) }
	set := func(id int, doc string) { k.do("update bits set doc=? where id=?", doc, id) }
	// A change is reported once, and an empty row not yet.
	add(10, `{"type":"tool","tool":"T","state":"runs"}`)
	expect(t, texts, "tool_call ")
	add(11, `{"type":"text","text":""}`)
	set(10, `{"type":"tool","tool":"T","state":"runs","x":1}`)
	add(12, `{"type":"odd"}`)
	expect(t, texts, "unknown ")
	set(12, `{"type":"odd","x":1}`)
	set(10, `{"type":"tool","tool":"T","state":"done","out":"o"}`)
	expect(t, texts, "tool_result o")
	set(10, `{"type":"tool","tool":"T","state":"done","out":"p"}`)
	k.do("pragma wal_checkpoint(truncate)")
	set(11, `{"type":"text","text":"whole"}`)
	expect(t, texts, "message whole")
	add(13, `{"type":"list","list":[{"x":"a"}]}`)
	expect(t, texts, "message a")
	set(13, `{"type":"list","list":[{"x":"a"},{"x":"b"}]}`)
	expect(t, texts, "message b")
	k.do(`update says set doc='{"role":"agent","error":"late"}' where id='a'`)
	expect(t, texts, "error late")
	// Another session begins; a helper's session does not count.
	k.talk("helper", "one", 2)
	k.talk("two", nil, 3)
	expect(t, texts, "message hello from two")
	add(100, `{"type":"text","text":"of one"}`) // the session that was left
	time.Sleep(2 * pollEvery)
	if err := stop(); !errors.Is(err, context.Canceled) || len(texts) > 0 {
		t.Error(err, len(texts))
	}
}

// TestFollowAnotherDatabase checks that the reader waits for a database that was removed,
// and for its tables.
func TestFollowAnotherDatabase(t *testing.T) {
	home := t.TempDir()
	k := keeps(t, home, "delete")
	k.talk("one", nil, 1)
	s := inDatabaseOf(t, home)
	one, err := s.Latest(t.Context())
	must(t, err)
	texts, stop := follower(t, s, one, false)
	expect(t, texts, "message hello from one")
	k.talk("two", nil, 2)
	k.quit()
	at := filepath.Join(home, "share/x.db")
	must(t, os.Rename(at, at+".away"))
	time.Sleep(2 * pollEvery)
	k = empty(t, home, "delete")
	k.do("create table other(id)")
	time.Sleep(2 * pollEvery)
	k.tables()
	k.talk("one", nil, 1)
	k.do(`insert into bits values(77,'uone',1,'{"type":"text","text":"more"}')`)
	expect(t, texts, "message more")
	if err := stop(); !errors.Is(err, context.Canceled) || len(texts) > 0 {
		t.Error(err, len(texts))
	}
}

// TestBadDatabase checks that the error for an unreadable database names the file and the reason.
func TestBadDatabase(t *testing.T) {
	outside := t.TempDir()
	keeps(t, outside, "delete").talk("secret", nil, 1)
	for says, spoil := range map[string]func(k *keeper, at string){
		"it is not an SQLite database":          func(_ *keeper, at string) { put(t, at, "../x.db", strings.Repeat("x", 8192), 0) },
		"the header: unexpected EOF":            func(_ *keeper, at string) { must(t, os.Truncate(at, 50)) },
		"does not exist, only":                  func(_ *keeper, at string) { must(t, os.Truncate(at, 4096)) },
		"table talks: the table does not exist": func(k *keeper, _ string) { k.do("drop table talks") },
		"table bits: the table does not exist":  func(k *keeper, _ string) { k.do("drop table bits") },
		"it has no column doc":                  func(k *keeper, _ string) { k.do("alter table says rename column doc to data") },
		"table talks: row 2 has no valid ID":    func(k *keeper, _ string) { k.do("insert into talks values(null, null, 1)") },
		"\"x.db\" is not a regular file":        func(_ *keeper, at string) { must(t, os.Remove(at)); must(t, unix.Mkfifo(at, 0o600)) },
		"\"x.db-wal\" is not a regular file":    func(_ *keeper, at string) { must(t, os.Mkdir(at+"-wal", 0o700)) },
		"escapes":                               func(_ *keeper, at string) { must(t, os.Remove(at)); must(t, os.Symlink(outside+"/share/x.db", at)) },
		"a transaction is not finished":         func(k *keeper, at string) { unfinished(k, at) },
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			k := keeps(t, home, "delete")
			k.talk("one", nil, 1)
			spoil(k, filepath.Join(home, "share/x.db"))
			s := inDatabaseOf(t, home)
			within(t, func() {
				_, err := s.Latest(t.Context())
				_, also := s.List(t.Context())
				for _, err := range []error{err, also} {
					if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "share/x.db") {
						t.Errorf("it says %v", err)
					}
					if strings.Contains(says, "the table does not exist") != errors.Is(err, spec.ErrNotFound) {
						t.Errorf("of another class: %v", err)
					}
				}
			})
		})
	}
}

// unfinished leaves a half-written transaction in the file, and its journal.
func unfinished(k *keeper, at string) {
	k.do("pragma cache_size=1")
	k.do("begin")
	for range 9 {
		k.do("insert into bits(doc) values(zeroblob(10000))")
	}
	if info, err := os.Stat(at + "-journal"); err != nil || info.Size() == 0 {
		k.t.Error(err)
	}
	k.quit()
}

// TestLargeDatabase checks that rows and sessions of any size are reported as such.
func TestLargeDatabase(t *testing.T) {
	racetest.Skip(t)
	home := t.TempDir()
	k := keeps(t, home, "wal")
	k.talk("one", nil, 1)
	k.do("insert into bits(say,at,doc) values('uone',1,zeroblob(17*1024*1024))")
	k.do("insert into bits(say,at,doc) values('uone',1,'{\"type\":\"text\",\"text\":\"' || hex(zeroblob(8*1000*1000)) || '\"}')")
	s := inDatabaseOf(t, home)
	all := read(t, s, "one")
	if len(all) != 3 || all[1].Cause != causeLong || len(all[2].Text) != 16_000_000 {
		t.Errorf("there are %d", len(all))
	}
	for range 9 {
		k.do("insert into bits(say,at,doc) values('uone',1,'{\"type\":\"text\",\"text\":\"' || hex(zeroblob(8*1000*1000)) || '\"}')")
	}
	one, err := s.Latest(t.Context())
	must(t, err)
	err = s.Read(t.Context(), one, func(spec.TranscriptEvent) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "larger than 128 MiB") {
		t.Errorf("it says %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.List(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestDatabaseRefused(t *testing.T) {
	for _, tt := range []struct{ from, to, says string }{
		{`share/x.db`, `/etc/x.db`, "not a path below the home"},
		{`share/x.db`, `../x.db`, "not a path below the home"},
		{`share/x.db`, `a//b`, "not a path below the home"},
		{`"table":"talks",`, ``, "sessions need table, id and time"},
		{`,"time":"changed"`, ``, "sessions need table, id and time"},
		{`"time":"changed"`, `"time":"changed","data":"x"`, "sessions need table, id and time"},
		{`"in":"talk",`, ``, "messages need table, id, in and data"},
		{`"in":"say",`, ``, "parts need table, id, in and data"},
		{`"time":"time"`, `"session":"x"`, "session is known"},
		{`"time":"time"`, `"files":["x"]`, "not in both"},
	} {
		if !strings.Contains(inDatabase, tt.from) {
			t.Fatal(tt.from)
		}
		var a spec.AgentTranscript
		must(t, json.Unmarshal([]byte(strings.Replace(inDatabase, tt.from, tt.to, 1)), &a))
		if err := CheckDatabase(&a); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s in place of %s: %v", tt.to, tt.from, err)
		}
	}
}

// TestNoDatabase checks that a database that is removed before it is opened is reported as missing.
func TestNoDatabase(t *testing.T) {
	s := inDatabaseOf(t, t.TempDir())
	err := s.Read(t.Context(), Session{ID: "x", File: "share/x.db"}, func(spec.TranscriptEvent) error { return nil })
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
