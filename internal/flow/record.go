package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
)

// Other names in the directory of a run.
const (
	LogsDir    = "logs"
	recordName = "validation.json"
)

// record is validation.json: it tells people and programs that know Looplia which steps are done. It is
// written from the events, and never read to decide anything.
type record struct {
	Workflow  string      `json:"workflow"`
	Version   string      `json:"version,omitempty"`
	SandboxID string      `json:"sandboxId"` // the run
	FinalStep string      `json:"finalStepId,omitempty"`
	Status    run.Status  `json:"status"`
	Steps     recordSteps `json:"steps"`
}

// recordSteps is an object of steps, by their IDs, in the order of the flow.
type recordSteps []recordStep

// MarshalJSON keeps the order.
func (list recordSteps) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, st := range list {
		id, err := json.Marshal(st.id)
		if err != nil {
			return nil, err
		}
		step, err := json.Marshal(st)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(slices.Concat(id, []byte(":"), step))
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

type recordStep struct {
	id          string
	Output      string       `json:"output,omitempty"`
	Status      run.Status   `json:"status"`
	Validate    *gate.Checks `json:"validate,omitempty"`
	Validated   bool         `json:"validated"`
	ValidatedAt time.Time    `json:"validatedAt,omitzero"`
	SHA256      string       `json:"sha256,omitempty"`
	Size        int64        `json:"size,omitempty"`
	Checks      []gate.Check `json:"checks,omitempty"`
}

// writeRecord writes the state of a flow, and its lists.
func writeRecord(dir, id string, s *State) error {
	if err := writeLists(dir, s); err != nil {
		return err
	}
	return store.WriteJSON(filepath.Join(dir, recordName), recordOf(id, s))
}

// Recorded reports whether the record of a flow that no process carries on matches its state. It
// does not if a process was killed before it wrote the record.
func Recorded(r *run.Run, s *State) bool {
	if s.Status == run.Queued || s.Status == run.Running { // an interrupted flow has no final record
		return true
	}
	want, err := json.Marshal(recordOf(r.ID, s))
	have, unread := store.ReadFile(filepath.Join(r.Dir(), recordName), unix.O_NOFOLLOW, maxRecord)
	var is bytes.Buffer
	if err == nil && unread == nil {
		err = json.Compact(&is, have)
	}
	return err == nil && unread == nil && bytes.Equal(is.Bytes(), want)
}

// maxRecord bounds a record that is read, in bytes.
const maxRecord = 64 << 20

// Record writes the record of a flow again. The caller holds the run.
func Record(p *flowplan.Plan, r *run.Run, events []run.Event) error {
	s, err := Fold(p, events)
	if err == nil {
		err = writeRecord(r.Dir(), r.ID, s)
	}
	return err
}

// recordOf makes the record from the state of a flow.
func recordOf(id string, s *State) record {
	f := s.plan.Flow
	r := record{Workflow: f.Name, Version: string(f.Version), SandboxID: id, Status: s.Status, Steps: recordSteps{}}
	for _, n := range s.nodes {
		if n.Step.Final {
			r.FinalStep = n.Step.ID
		}
		st := s.byID[n.ID]
		one := recordStep{id: n.ID, Status: st.Status, Validate: n.Step.Validate, Validated: st.Status == run.Completed, Checks: st.Checks}
		if n.Output != "" {
			one.Output = flowplan.OutputsDir + "/" + n.Output
		}
		if a := st.Output; a != nil {
			one.SHA256, one.Size, one.ValidatedAt = a.SHA256, a.Size, a.At
		}
		r.Steps = append(r.Steps, one)
	}
	return r
}

// keepFile makes a file durable in one of the directories of a run. It fails if the run's directory was
// removed.
func keepFile(dir, name string, data []byte) error {
	path := filepath.Join(dir, name)
	if _, err := os.Lstat(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := makeWay(dir, name); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	for at := filepath.Dir(path); ; at = filepath.Dir(at) {
		if err := store.SyncDir(at); err != nil || at == filepath.Clean(dir) {
			if err != nil {
				return err
			}
			break
		}
	}
	return store.WriteFile(path, data)
}

// makeWay renames an obstacle to keeping a file: a directory at its path, or a file above it. It may be
// the user's work, so it is never deleted.
func makeWay(dir, name string) error {
	path, at := filepath.Join(dir, name), dir
	for part := range strings.SplitSeq(name, "/") {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case at == path && !info.IsDir(): // it is replaced
			return nil
		case at != path && isDirectory(at):
			continue
		}
		return os.Rename(at, at+".aside-"+store.NewID())
	}
	return nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Fill puts the input files into the directory of a new run, and makes directories for its outputs
// and logs.
func Fill(dir string, inputs map[string][]byte) error {
	for _, name := range []string{flowplan.InputsDir, flowplan.OutputsDir, LogsDir} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return err
		}
	}
	for name, data := range inputs {
		if err := keepFile(filepath.Join(dir, flowplan.InputsDir), name, data); err != nil {
			return err
		}
	}
	return store.SyncDir(dir)
}

// readFile reads a file of a run. It refuses a link.
func readFile(dir, kind, name string) ([]byte, error) {
	return store.ReadFile(filepath.Join(dir, kind, name), unix.O_NOFOLLOW, gate.MaxBytes)
}

// readOutput reads a file of outputs/. found is false for anything but a regular file within the bounds.
// An error means that the disk could not be read.
func readOutput(dir, name string) (data []byte, found bool, err error) {
	data, err = readFile(dir, flowplan.OutputsDir, name)
	if err == nil {
		return data, true, nil
	}
	var fault unix.Errno
	if errors.As(err, &fault) && !slices.Contains(noFile, fault) {
		return nil, false, fmt.Errorf("look at %s/%s of the run: %w", flowplan.OutputsDir, name, err)
	}
	return nil, false, nil
}

// noFile are the errors that mean that the path has no readable file.
var noFile = []unix.Errno{unix.ENOENT, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ENXIO, unix.EACCES, unix.EPERM}

// Look hashes the current files of a run.
func Look(dir string, s *State) (Seen, error) {
	seen := Seen{Inputs: map[string]string{}, Outputs: map[string]string{}}
	for _, name := range s.plan.Files {
		data, err := readFile(dir, flowplan.InputsDir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return seen, fmt.Errorf("look at %s/%s of the run: %w", flowplan.InputsDir, name, err)
		}
		seen.Inputs[name] = flowplan.HashOf(data)
	}
	for _, st := range s.Steps {
		if st.Output == nil {
			continue
		}
		data, found, err := readOutput(dir, st.Output.Path)
		if err != nil {
			return seen, err
		}
		if found {
			seen.Outputs[st.Output.Path] = flowplan.HashOf(data)
		}
	}
	return seen, nil
}

// lookAtFiles updates the state to the current files of a run.
func (s *State) lookAtFiles(dir string) error {
	seen, err := Look(dir, s)
	if err != nil {
		return err
	}
	s.compareFiles(seen)
	s.spread()
	return nil
}

// Stands reports whether a completed flow is still complete with its current files: resuming it would do
// nothing.
func Stands(p *flowplan.Plan, dir string, events []run.Event) (bool, error) {
	s, err := Fold(p, events)
	if err != nil || s.Status != run.Completed {
		return false, err
	}
	s.beginCarrier()
	if err := s.lookAtFiles(dir); err != nil {
		return false, err
	}
	next := Next(s, time.Now())
	return next.End != nil && next.End.Status == run.Completed, nil
}

// writeLists writes the lists of groups with passes, with their finished elements marked as
// passing. It skips a list that has not changed since it was last written.
func writeLists(dir string, s *State) error {
	for i := range s.plan.Flow.Steps {
		g := &s.plan.Flow.Steps[i]
		if g.Passes == "" {
			continue
		}
		list, done := s.plan.Lists[g.ID], []string{}
		for _, e := range s.Elements() {
			if e.Group == g.ID && e.Status == run.Completed {
				done = append(done, e.ID)
			}
		}
		key := g.ID + "\n" + strings.Join(done, "\n")
		if s.marked[g.ID] == key {
			continue
		}
		data, err := readFile(dir, flowplan.InputsDir, list.Input)
		if err != nil || flowplan.HashOf(data) != list.SHA256 {
			continue // the flow ends because of that, and says so
		}
		if data, err = flowplan.MarkPassed(data, done); err != nil {
			return fmt.Errorf("write outputs/%s: %w", g.Passes, err)
		}
		if err := keepFile(filepath.Join(dir, flowplan.OutputsDir), g.Passes, data); err != nil {
			return err
		}
		s.marked[g.ID] = key
	}
	return nil
}
