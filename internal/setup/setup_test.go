package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// commands returns commands of these stages.
func commands(stages ...string) (list []spec.SetUp) {
	for i, when := range stages {
		list = append(list, spec.SetUp{When: when, Name: fmt.Sprint(i), Args: []string{"true"}})
	}
	return list
}

// TestOrder checks which commands are run, and in which order, in a sandbox of one command, whose set-up is not
// recorded.
func TestOrder(t *testing.T) {
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		done    int
		fails   string
		attach  bool
		want    string
		wantErr error
	}{
		"in the background": {want: "0 1 2"},
		"attached":          {attach: true, want: "0 1 2 3"},
		"some are done":     {done: 2, attach: true, want: "2 3"},
		"one fails":         {fails: "1", attach: true, want: "0 1", wantErr: failed},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			s := &sequence{
				sandbox: &spec.Sandbox{Remove: true, Devcontainer: &spec.Devcontainer{
					Commands: commands(spec.OnCreate, spec.UpdateContent, spec.PostCreate, spec.PostAttach),
				}},
				had: record{Done: make([]time.Time, tt.done)},
				do: func(_ context.Context, c spec.SetUp) error {
					got = append(got, c.Name)
					if c.Name == tt.fails {
						return failed
					}
					return nil
				},
			}
			if err := s.runDue(t.Context(), tt.attach); !errors.Is(err, tt.wantErr) {
				t.Errorf("%v", err)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("ran %q", got)
			}
		})
	}
}

// TestIsOver checks when a command need not wait for a set-up.
func TestIsOver(t *testing.T) {
	for name, tt := range map[string]struct {
		docker, searched bool
		commands         []spec.SetUp
		done             int
		attach           bool
		want             bool
	}{
		"to search":               {docker: true},
		"searched":                {docker: true, searched: true, want: true},
		"searched, with commands": {docker: true, searched: true, commands: commands(spec.PostCreate)},
		"nothing done":            {commands: commands(spec.OnCreate, spec.PostCreate)},
		"half done":               {commands: commands(spec.OnCreate, spec.PostCreate), done: 1},
		"done":                    {commands: commands(spec.OnCreate, spec.PostCreate), done: 2, want: true},
		"each start":              {commands: commands(spec.OnCreate, spec.PostStart), done: 1},
		"each attachment":         {commands: commands(spec.OnCreate, spec.PostAttach), done: 1, attach: true},
		"no attachment":           {commands: commands(spec.OnCreate, spec.PostAttach), done: 1, want: true},
	} {
		s := &sequence{
			sandbox: &spec.Sandbox{Docker: tt.docker, Devcontainer: &spec.Devcontainer{Commands: tt.commands}},
			had:     record{Docker: tt.searched, Done: make([]time.Time, tt.done)},
		}
		if got := s.isOver(tt.attach); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestDockerIsSearchedOnce checks that a sandbox with Docker is not searched again.
func TestDockerIsSearchedOnce(t *testing.T) {
	s := &sequence{sandbox: &spec.Sandbox{Docker: true}, had: record{Docker: true}}
	if err := s.runDue(t.Context(), true); err != nil { // a search would need an engine
		t.Error(err)
	}
	if !IsNeeded(s.sandbox) || IsNeeded(&spec.Sandbox{}) || IsNeeded(&spec.Sandbox{Devcontainer: &spec.Devcontainer{}}) {
		t.Error("it is not known which sandboxes have a set-up")
	}
}

// TestRecordAt checks that the record of an earlier time lacks later commands and the search for Docker: files of
// that time may lack the daemon.
func TestRecordAt(t *testing.T) {
	s, err := store.Open(t.TempDir() + "/state")
	if err != nil {
		t.Fatal(err)
	}
	sb := &spec.Sandbox{Version: spec.Version, ID: store.NewID(), Name: "box"}
	d, err := s.Create(sb)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().UTC()
	if err := store.WriteJSON(d.SetUp(), record{Version: spec.Version, Done: []time.Time{at, at.Add(time.Hour)}, Docker: true}); err != nil {
		t.Fatal(err)
	}
	text, err := RecordAt(d, at.Add(time.Minute))
	if err != nil || bytes.Contains(text, []byte("docker")) || bytes.Count(text, []byte("T")) != 1 {
		t.Errorf("%s, %v", text, err)
	}
}
