package image

import (
	"errors"
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
