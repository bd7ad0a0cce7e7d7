package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/bothy-dev/bothy/spec"
)

// Uploads records the sandbox's uploads that count against limits of network rules.
func (d Sandbox) Uploads() string { return filepath.Join(d.Dir, "uploads.json") }

// ReadUploads reads that file. A missing one means that nothing was sent. One that cannot be read
// exactly is an error, because it would otherwise count for less than was sent.
func (d Sandbox) ReadUploads() ([]spec.Upload, error) {
	data, err := os.ReadFile(d.Uploads())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := CheckVersion(d.Uploads(), data); err != nil {
		return nil, err
	}
	list, err := decodeUploads(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", d.Uploads(), err)
	}
	return list, nil
}

func decodeUploads(data []byte) ([]spec.Upload, error) {
	var doc struct {
		Version int            `json:"version"`
		Uploads *[]*uploadRead `json:"uploads"`
	}
	j := json.NewDecoder(bytes.NewReader(data))
	j.DisallowUnknownFields()
	if err := j.Decode(&doc); err != nil {
		return nil, err
	}
	if _, err := j.Token(); err != io.EOF {
		return nil, errors.New("something follows the document")
	}
	if doc.Version != spec.Version {
		return nil, fmt.Errorf("it is of version %d", doc.Version)
	}
	if doc.Uploads == nil {
		return nil, errors.New("it has no list")
	}
	list := make([]spec.Upload, 0, len(*doc.Uploads))
	for _, u := range *doc.Uploads {
		if u == nil || u.Target == "" || u.Bytes == nil || *u.Bytes < 0 {
			return nil, errors.New("an entry says nothing")
		}
		if slices.ContainsFunc(list, func(o spec.Upload) bool { return o.Target == u.Target }) {
			return nil, fmt.Errorf("%q stands twice", u.Target)
		}
		list = append(list, spec.Upload{Target: u.Target, Bytes: *u.Bytes})
	}
	return list, nil
}

// uploadRead is one upload as it is read; no field may be missing.
type uploadRead struct {
	Target string `json:"target"`
	Bytes  *int64 `json:"bytes"`
}

// WriteUploads replaces that file.
func (d Sandbox) WriteUploads(list []spec.Upload) error {
	return WriteJSON(d.Uploads(), spec.Uploads{Version: spec.Version, Uploads: list})
}
