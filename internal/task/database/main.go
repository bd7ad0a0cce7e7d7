package database

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/spec"
)

// idle is how long the process waits for another order. It takes some 10 MB, which in a keeper count for
// the sandbox; a start takes milliseconds.
const idle = 10 * time.Second

// Main serves one client, see book.Argv0, and returns the exit code.
func Main(dir string, in io.Reader, out io.Writer) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := &server{dir: dir, talk: book.NewTalk(in, out), orders: make(chan order)}
	go s.listen(ctx, cancel)
	defer s.closeDatabase()
	if err := s.serveOrders(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", book.Argv0, err)
		return spec.ExitError
	}
	return spec.ExitOK
}

// server serves one client.
type server struct {
	dir    string
	talk   *book.Talk
	orders chan order
	db     *db // nil before the first order
}

// order is a message of the client.
type order struct {
	kind book.Kind
	text []byte
}

// listen reads messages. At their end the client is gone: listen cancels the running order, even while
// it waits for others.
func (s *server) listen(ctx context.Context, gone func()) {
	defer gone()
	for {
		k, text, err := s.talk.Hear()
		if err != nil {
			return
		}
		select {
		case s.orders <- order{k, text}:
		case <-ctx.Done():
			return
		}
	}
}

// serveOrders executes orders. It reports an order's error to the client, and returns an error of the
// conversation.
func (s *server) serveOrders(ctx context.Context) error {
	for {
		select {
		case o := <-s.orders:
			a, err := s.executeOrder(ctx, o)
			if err != nil {
				a.Error = spec.ToWire(err)
			}
			if s.db != nil && s.db.sole {
				s.closeDatabase() // other processes wait
			}
			if err := s.talk.Finish(a); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		case <-time.After(idle):
			return nil
		}
	}
}

// executeOrder executes one order.
func (s *server) executeOrder(ctx context.Context, o order) (a book.Answer, err error) {
	if s.db != nil && s.db.wasMoved() {
		s.closeDatabase()
	}
	if s.db == nil {
		if s.db, err = open(ctx, s.dir); err != nil {
			return a, err
		}
	}
	switch o.kind {
	case book.Nearest:
		a.Project, err = s.nearest(ctx, string(o.text))
	case book.Projects:
		err = patiently(ctx, func() error {
			return s.db.sql.QueryRowContext(ctx, "SELECT count(DISTINCT project) FROM tasks").Scan(&a.Count)
		})
	case book.CheckAll:
		return a, s.checkDatabase(ctx)
	case book.View:
		err = s.sendTasks(ctx, s.db.sql, string(o.text))
	case book.Change:
		return a, s.change(ctx, string(o.text))
	default:
		return a, fmt.Errorf("an order of the kind %q", byte(o.kind))
	}
	if err != nil {
		err = s.db.explain("read the tasks", err)
	}
	return a, err
}

// checkDatabase makes SQLite read the whole database.
func (s *server) checkDatabase(ctx context.Context) error {
	var verdict string
	err := patiently(ctx, func() error {
		return s.db.sql.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict)
	})
	if err != nil {
		return s.db.explain("check the tasks", err)
	}
	if verdict != "ok" {
		return s.db.damaged("check the tasks", errors.New(verdict))
	}
	return nil
}

func (s *server) closeDatabase() {
	if s.db != nil {
		s.db.close()
		s.db = nil
	}
}

// nearest searches upwards for a project with tasks.
func (s *server) nearest(ctx context.Context, dir string) (project []byte, err error) {
	for {
		var any bool
		err := patiently(ctx, func() error {
			return s.db.sql.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM tasks WHERE project = ?)", dir).Scan(&any)
		})
		if any || err != nil {
			return []byte(dir), err
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil, nil
		}
		dir = up
	}
}

// querier is a database, or a transaction of one.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// sendTasks sends the documents of a project.
func (s *server) sendTasks(ctx context.Context, q querier, project string) error {
	var rows *sql.Rows
	err := patiently(ctx, func() (err error) {
		rows, err = q.QueryContext(ctx, "SELECT document FROM tasks WHERE project = ?", project) //nolint:sqlclosecheck // below
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var doc sql.RawBytes
		if err := rows.Scan(&doc); err != nil {
			return err
		}
		if err := s.talk.Say(book.Document, doc); err != nil {
			return err
		}
	}
	return rows.Err()
}

// change lets the client change tasks.
func (s *server) change(ctx context.Context, project string) error {
	var tx *sql.Tx
	err := patiently(ctx, func() (err error) {
		tx, err = s.db.sql.BeginTx(ctx, nil)
		return err
	})
	if err != nil {
		return s.db.explain("change the tasks", err)
	}
	defer tx.Rollback() //nolint:errcheck // of uncommitted changes
	if err := s.sendTasks(ctx, tx, project); err != nil {
		return s.db.explain("read the tasks", err)
	}
	if err := s.talk.Finish(book.Answer{}); err != nil {
		return err
	}
	var changed [][]byte
	for {
		select {
		case o := <-s.orders:
			switch o.kind {
			case book.Document:
				changed = append(changed, o.text)
				continue
			case book.Commit:
				if err := writeTasks(ctx, tx, project, changed); err != nil {
					return s.db.explain("keep the change of tasks", err)
				}
				return nil
			case book.Abort:
				return nil
			}
			return fmt.Errorf("an order of the kind %q within a change", byte(o.kind))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// writeTasks writes tasks and commits.
func writeTasks(ctx context.Context, tx *sql.Tx, project string, docs [][]byte) error {
	put, err := tx.PrepareContext(ctx, "INSERT INTO tasks (project, id, document) VALUES (?, ?, ?) ON CONFLICT (project, id) DO UPDATE SET document = excluded.document")
	if err != nil {
		return err
	}
	for _, doc := range docs {
		var t struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(doc, &t); err != nil {
			return err
		}
		if _, err := put.ExecContext(ctx, project, t.ID, string(doc)); err != nil {
			return err
		}
	}
	return tx.Commit()
}
