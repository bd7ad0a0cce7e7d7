package store

import (
	"bytes"
	"encoding/json"

	"github.com/bothy-dev/bothy/spec"
)

// CheckVersion returns an error if a newer Bothy wrote a document: all documents in JSON have the same
// version. It reads only to the version, which is the first member, because the rest may have types that
// this Bothy does not know.
func CheckVersion(path string, document []byte) error {
	return spec.CheckVersion(path, versionOf(document), spec.Version)
}

// versionOf returns the member version of a JSON object, 0 if it has none that is a number.
func versionOf(document []byte) int {
	d := json.NewDecoder(bytes.NewReader(document))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return 0
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return 0
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return 0
		}
		if name == "version" {
			var n int
			if json.Unmarshal(value, &n) != nil {
				return 0
			}
			return n
		}
	}
	return 0
}
