package devcontainer

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func feature(t *testing.T, u Use, text string) *Feature {
	t.Helper()
	f, err := ParseFeature([]byte(text), u, here)
	if err != nil {
		t.Fatalf("feature %s: %v", u.ID, err)
	}
	return f
}

func TestParseFeature(t *testing.T) {
	f := feature(t, Use{"./tools/go", map[string]string{"version": "1.26", "more": "x"}}, `{
		"id": "go", "version": "1.0.0", "documentationURL": "x", "customizations": {},
		"options": {"version": {"type": "string", "default": "latest"}, "lint": {"type": "boolean", "default": true}, "none": {"type": "string"}},
		"containerEnv": {"PATH": "/go/bin:${PATH}"}, "postCreateCommand": {"b": "x"}, "onCreateCommand": "y",
		"mounts": [{"type": "bind", "source": "/var/run/docker.sock", "target": "/d"}], "oddity": 1
	}`)
	want := &Feature{
		ID: "./tools/go", Options: map[string]string{"version": "1.26", "lint": "true", "more": "x"}, local: true, own: "go",
		Settings: Settings{
			ContainerEnv: []Variable{{"PATH", "/go/bin:${PATH}"}},
			Commands:     []spec.SetUp{sh(spec.PostCreate, "go b", "x"), sh(spec.OnCreate, "go", "y")},
		},
		Notes: []string{
			"feature ./tools/go: mounts: /var/run/docker.sock is left out: no file shows a directory of this host; to do so yourself: -v DIR:/d",
			"feature ./tools/go: not known, and without effect: oddity",
		},
	}
	same(t, "otherwise", want, f)
	if f.localDir() != "tools/go" {
		t.Errorf("it lies in %s", f.localDir())
	}
	for _, text := range []string{``, `[]`, `{"options": 3}`, `{"options": {"a": {"default": 3}}}`, `{"remoteUser": "root"}`, `{"dependsOn": []}`, `{"id": "a\nbothy: ok"}`, `{"dependsOn": {"a\nb": {}}}`} {
		if _, err := ParseFeature([]byte(text), Use{ID: "./f"}, here); err == nil || !strings.HasPrefix(err.Error(), "feature ./f: ") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

func TestInOrder(t *testing.T) {
	a := feature(t, Use{ID: "./a"}, `{"id": "a", "installsAfter": ["ghcr.io/x/c:1", "ghcr.io/x/none"]}`)
	b := feature(t, Use{ID: "./b"}, `{"id": "b"}`)
	c := feature(t, Use{ID: "./c"}, `{"id": "c", "dependsOn": {"./d": {}}}`)
	d := feature(t, Use{ID: "./d"}, `{"id": "d"}`)
	e := feature(t, Use{ID: "./e"}, `{"id": "e", "installsAfter": ["f"]}`)
	f := feature(t, Use{ID: "./f"}, `{"id": "f", "installsAfter": ["e"]}`)
	tests := []struct {
		name  string
		list  []*Feature
		order []string
		want  string
		err   string
	}{
		{"as named", []*Feature{b, d}, nil, "./b ./d", ""},
		{"after others", []*Feature{a, b, c, d}, nil, "./b ./d ./c ./a", ""},
		{"some first", []*Feature{b, d}, []string{"./d"}, "./d ./b", ""},
		{"first, but for what it needs", []*Feature{b, d, c}, []string{"c"}, "./b ./d ./c", ""},
		{"what is not there", []*Feature{c}, nil, "", "./c needs ./d"},
		{"a circle", []*Feature{e, f}, nil, "", "wait for each other"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, err := InOrder(tt.list, tt.order)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v", err)
				}
				return
			}
			var ids []string
			for _, f := range list {
				ids = append(ids, f.ID)
			}
			if got := strings.Join(ids, " "); err != nil || got != tt.want {
				t.Errorf("order %s, not %s (%v)", got, tt.want, err)
			}
		})
	}
}

func TestFinish(t *testing.T) {
	if text, err := Finish(nil, "", nil, "", "", "node"); text != "" || err != nil {
		t.Errorf("nothing to do is done by %q (%v)", text, err)
	}
	if text, _ := Finish(nil, "", nil, "root", "", ""); text != "" {
		t.Errorf("root becomes root by %q", text)
	}
	text, err := Finish(nil, "", []Variable{{"A", `a "b" \ $c`}}, "node", "", "")
	if want := "FROM " + Base + "\nENV A=\"a \\\"b\\\" \\\\ \\$c\"\nUSER node\n"; text != want || err != nil {
		t.Errorf("%s\nnot\n%s (%v)", text, want, err)
	}
	f := feature(t, Use{"./go", map[string]string{"ver-sion": "it's \n]", "1st": "x"}}, `{"containerEnv": {"P": "/x:${containerEnv:PATH}"}}`)
	if text, err = Finish([]*Feature{f}, "", nil, "", "", "node:staff"); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	want := []string{"FROM " + Base, "USER root", `COPY ["./go/","/tmp/.devcontainer-features/0/"]`, `ENV P="/x:${PATH}"`, "", "USER node:staff"}
	if len(lines) != len(want) {
		t.Fatalf("there are %d lines:\n%s", len(lines), text)
	}
	for i, line := range want {
		if line != "" && lines[i] != line {
			t.Errorf("line %d is %s, not %s", i, lines[i], line)
		}
	}
	far := feature(t, Use{"ghcr.io/a/go:1", nil}, `{}`)
	if text, _ := Finish([]*Feature{f, far}, "files", nil, "", "", ""); !strings.Contains(text, "\nCOPY --from="+FeatureImage(1)+` ["/files/","/tmp/.devcontainer-features/1/"]`+"\n") {
		t.Errorf("nothing is copied from its image:\n%s", text)
	}
	for _, part := range []string{`RUN ["/bin/sh","-c","set -e; `, `export VER_SION='it'\\''s \n]'; `, `export _ST='x'; `, `_REMOTE_USER='node'; `, `_CONTAINER_USER='node'; `} {
		if !strings.Contains(lines[4], part) {
			t.Errorf("%s is not in %s", part, lines[4])
		}
	}
	for _, user := range []string{"node\nRUN evil", "$USER", "a b", "-x"} {
		if text, err := Finish(nil, "", []Variable{{"A", "b"}}, "", "", user); err == nil || !strings.Contains(err.Error(), "the image's USER: ") {
			t.Errorf("the image's user %q makes %q (%v)", user, text, err)
		}
	}
	if _, err := Finish(nil, "", []Variable{{"A", "a\nRUN evil"}}, "", "", ""); err == nil {
		t.Error("a variable can add instructions")
	}
}
