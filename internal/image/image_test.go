package image

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func TestReference(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for text, want := range map[string]string{
		"alpine":                           "docker.io/library/alpine:latest",
		"alpine:3.20":                      "docker.io/library/alpine:3.20",
		"team/tools":                       "docker.io/team/tools:latest",
		"docker.io/alpine":                 "docker.io/library/alpine:latest",
		"index.docker.io/library/alpine":   "docker.io/library/alpine:latest",
		"ghcr.io/acme/a/b:V1_x":            "ghcr.io/acme/a/b:V1_x",
		"localhost/tools":                  "localhost/tools:latest",
		"localhost:5000/tools:v2":          "localhost:5000/tools:v2",
		"127.0.0.1:5000/tools":             "127.0.0.1:5000/tools:latest",
		"alpine@" + digest:                 "docker.io/library/alpine@" + digest,
		"GHCR.io/acme/tools:v1@" + digest:  "ghcr.io/acme/tools@" + digest,
		"registry.example:443/a_b/c-d.e:x": "registry.example:443/a_b/c-d.e:x",
	} {
		r, err := ParseReference(text)
		if err != nil || r.Name() != want {
			t.Errorf("%s is %s, %v", text, r.Name(), err)
		}
		if again, err := ParseReference(r.Short()); err != nil || again.Name() != want {
			t.Errorf("%s, shortened to %s, is %s, %v", text, r.Short(), again.Name(), err)
		}
	}
	for _, text := range []string{
		"", "UPPER", "a//b", "../a", "a/../b", "a:", "a:b:c", "a@sha256:12", "a@md5:" + strings.Repeat("a", 32), "a@" + strings.ToUpper(digest), "-a", "a-", "a b",
		"http://x/y", "x.y:z@w/a", "a\nb", "a/b/", "/a", "a:" + strings.Repeat("t", 129), "user@host/a", strings.Repeat("a/", 200) + "a",
	} {
		if r, err := ParseReference(text); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q was taken for %+v, %v", text, r, err)
		}
	}
}

func TestFindID(t *testing.T) {
	s := Shelf{Dir: filepath.Join(t.TempDir(), "images")}
	if err := s.Make(); err != nil {
		t.Fatal(err)
	}
	a, b := "abcd"+strings.Repeat("0", 60), "abce"+strings.Repeat("0", 60)
	for name, hex := range map[string]string{"a:v1": a, "a:v2": a, "": b} {
		if err := s.Add(Descriptor{Digest: algorithm + hex}, Image{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]int{"sha256:" + a: 2, a: 2, "sha256:abcd": 2, "abcd0": 2, "abce": 1, "sha256:" + b: 1} {
		if got, err := s.FindID(id); err != nil || len(got) != want {
			t.Errorf("%s is %+v, %v", id, got, err)
		}
	}
	for id, want := range map[string]error{
		"": spec.ErrNotFound, "sha256:": spec.ErrNotFound, "abc": spec.ErrNotFound, "abcd1": spec.ErrNotFound, "ABCD": spec.ErrNotFound, "a:v1": spec.ErrNotFound, a + "0": spec.ErrNotFound,
	} {
		if got, err := s.FindID(id); !errors.Is(err, want) {
			t.Errorf("%s is %+v, %v", id, got, err)
		}
	}
	if err := s.Add(Descriptor{Digest: algorithm + "abcd" + strings.Repeat("1", 60)}, Image{Name: "c:v1"}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.FindID("abcd"); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.FindID("abcd1"); err != nil || got[0].Name != "c:v1" {
		t.Errorf("%+v, %v", got, err)
	}
}
