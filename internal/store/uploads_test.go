package store

import (
	"os"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func TestUploads(t *testing.T) {
	d := Sandbox{t.TempDir()}
	if list, err := d.ReadUploads(); err != nil || list != nil {
		t.Fatalf("of a sandbox that has sent nothing: %v, %v", list, err)
	}
	want := []spec.Upload{{Target: "**.example.com", Bytes: 1 << 40}, {Target: "a.example:443", Bytes: 1}}
	for _, list := range [][]spec.Upload{want, {}} {
		if err := d.WriteUploads(list); err != nil {
			t.Fatal(err)
		}
		if got, err := d.ReadUploads(); err != nil || !slices.Equal(got, list) {
			t.Fatalf("%v came back as %v, %v", list, got, err)
		}
	}
}

// TestUploadsDamaged checks that a damaged file is not read as an empty one.
func TestUploadsDamaged(t *testing.T) {
	for _, text := range []string{
		``, `null`, `{}`, `[]`, `{"version":1}`, `{"version":1,"uploads":null}`, `{"version":2,"uploads":[]}`, `{"uploads":[]}`,
		`{"version":1,"uploads":[]`, `{"version":1,"uploads":[]}{}`, `{"version":1,"uploads":[],"more":1}`,
		`{"version":1,"uploads":[null]}`, `{"version":1,"uploads":[{}]}`, `{"version":1,"uploads":[{"target":"a"}]}`,
		`{"version":1,"uploads":[{"bytes":1}]}`, `{"version":1,"uploads":[{"target":"","bytes":1}]}`,
		`{"version":1,"uploads":[{"target":"a","bytes":-1}]}`, `{"version":1,"uploads":[{"target":"a","bytes":1.5}]}`,
		`{"version":1,"uploads":[{"target":"a","bytes":"1"}]}`, `{"version":1,"uploads":[{"target":"a","bytes":null}]}`,
		`{"version":1,"uploads":[{"target":"a","bytes":99999999999999999999}]}`,
		`{"version":1,"uploads":[{"target":"a","bytes":1,"x":2}]}`,
		`{"version":1,"uploads":[{"target":"a","bytes":1},{"target":"a","bytes":2}]}`,
	} {
		d := Sandbox{t.TempDir()}
		if err := os.WriteFile(d.Uploads(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if list, err := d.ReadUploads(); err == nil {
			t.Errorf("%s was read as %v", text, list)
		}
	}
	d := Sandbox{t.TempDir()}
	if err := os.Mkdir(d.Uploads(), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ReadUploads(); err == nil {
		t.Error("a directory in its place was read as nothing")
	}
}
