package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/store"
)

// Names in the directory of a run.
const (
	InputsDir  = "inputs"
	OutputsDir = "outputs"
	LogsDir    = "logs"
	recordName = "validation.json"
)

// record is validation.json: which steps are done, for people and programs that know
// Looplia's. It is written from the events, and never read.
type record struct {
	Workflow  string                `json:"workflow"`
	Version   string                `json:"version,omitempty"`
	SandboxID string                `json:"sandboxId"` // the run
	FinalStep string                `json:"finalStepId,omitempty"`
	Status    Status                `json:"status"`
	Steps     map[string]recordStep `json:"steps"`
}

type recordStep struct {
	Output      string       `json:"output,omitempty"`
	Status      Status       `json:"status"`
	Validate    *gate.Checks `json:"validate,omitempty"`
	Validated   bool         `json:"validated"`
	ValidatedAt time.Time    `json:"validatedAt,omitzero"`
	SHA256      string       `json:"sha256,omitempty"`
	Size        int64        `json:"size,omitempty"`
	Checks      []gate.Check `json:"checks,omitempty"`
}

// writeRecord writes how a flow stands, and what its lists come to.
func writeRecord(dir, id string, s *State) error {
	f := s.plan.Flow
	r := record{Workflow: f.Name, Version: string(f.Version), SandboxID: id, Status: s.Status, Steps: map[string]recordStep{}}
	for _, n := range s.nodes {
		if n.Step.Final {
			r.FinalStep = n.Step.ID
		}
		st := s.byID[n.ID]
		one := recordStep{Status: st.Status, Validate: n.Step.Validate, Validated: st.Status == Completed, Checks: st.Checks}
		if n.Output != "" {
			one.Output = OutputsDir + "/" + n.Output
		}
		if a := st.Output; a != nil {
			one.SHA256, one.Size, one.ValidatedAt = a.SHA256, a.Size, a.At
		}
		r.Steps[n.ID] = one
	}
	if err := writeLists(dir, s); err != nil {
		return err
	}
	return store.WriteJSON(filepath.Join(dir, recordName), r)
}

// keepFile makes a file of a run durable.
func keepFile(dir, name string, data []byte) error {
	path := filepath.Join(dir, name)
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

// Fill puts the files of inputs into the directory of a run that is being made, with
// directories for what becomes of it.
func Fill(dir string, inputs map[string][]byte) error {
	for _, name := range []string{InputsDir, OutputsDir, LogsDir} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return err
		}
	}
	for name, data := range inputs {
		if err := keepFile(filepath.Join(dir, InputsDir), name, data); err != nil {
			return err
		}
	}
	return store.SyncDir(dir)
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// readFile reads a file of a run. A link is none of ours.
func readFile(dir, kind, name string) ([]byte, error) {
	return store.ReadFile(filepath.Join(dir, kind, name), unix.O_NOFOLLOW, gate.MaxBytes)
}

// Look sees what the files of a run are now.
func Look(dir string, s *State) (Seen, error) {
	seen := Seen{Inputs: map[string]string{}, Outputs: map[string]string{}}
	put := func(to map[string]string, kind, name string) error {
		data, err := readFile(dir, kind, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look at %s/%s of the run: %w", kind, name, err)
		}
		to[name] = hashOf(data)
		return nil
	}
	for _, name := range s.plan.Files {
		if err := put(seen.Inputs, InputsDir, name); err != nil {
			return seen, err
		}
	}
	for _, st := range s.Steps {
		if st.Output == nil {
			continue
		}
		if err := put(seen.Outputs, OutputsDir, st.Output.Path); err != nil {
			return seen, err
		}
	}
	return seen, nil
}
