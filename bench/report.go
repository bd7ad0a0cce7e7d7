package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Names of the groups.
const (
	groupLife    = "life"
	groupLayer   = "layer"
	groupMemory  = "memory"
	groupAgent   = "agent"
	groupFiles   = "files"
	groupReview  = "review"
	groupNetwork = "network"
	groupHeld    = "held"

	groupCheckpoint = "checkpoint"
	groupLoop       = "loop"
	groupDocker     = "docker"
)

// Report is a run as it is stored.
type Report struct {
	Version    int               `json:"version"` // of this format
	Date       time.Time         `json:"date"`
	Host       Host              `json:"host"`
	Versions   map[string]string `json:"versions"`
	LoadBefore Load              `json:"load_before"`
	LoadAfter  Load              `json:"load_after"`
	Series     []*Series         `json:"series"`
	Notes      []string          `json:"notes,omitempty"`
}

// Series is all samples of one case with one subject. Samples with the same
// index of different subjects were taken in the same round.
type Series struct {
	Group   string    `json:"group"`
	Case    string    `json:"case"`
	Subject string    `json:"subject"`
	Unit    string    `json:"unit"`
	Target  float64   `json:"target,omitempty"` // the project's target; shown, not asserted
	Samples []float64 `json:"samples"`
	Skipped string    `json:"skipped,omitempty"` // why it has no samples
}

// Units of samples.
const (
	unitMS    = "ms"
	unitMiB   = "MiB"
	unitTimes = "×"
)

// series finds a series, or starts it.
func (r *Report) series(group, name, subject, unit string) *Series {
	for _, s := range r.Series {
		if s.Group == group && s.Case == name && s.Subject == subject {
			return s
		}
	}
	s := &Series{Group: group, Case: name, Subject: subject, Unit: unit, Samples: []float64{}}
	r.Series = append(r.Series, s)
	return s
}

func (s *Series) add(v float64) { s.Samples = append(s.Samples, v) }

// skip starts a series that stays empty.
func (r *Report) skip(group, name, subject, reason string) {
	r.series(group, name, subject, unitMS).Skipped = reason
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// describe records the machine and the versions of this run.
func (r *Report) describe(ctx context.Context, b *bench) {
	r.Host = describeHost(b.work)
	r.Versions = versions(ctx, b.root, b.bothy)
	r.LoadBefore = load()
}

// path returns the default path of a stored run.
func (r *Report) path(root string) string {
	name := r.Date.Format(time.DateOnly) + "-" + r.Host.Kind + ".json"
	return filepath.Join(root, "bench", "results", name)
}

func (r *Report) write(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
