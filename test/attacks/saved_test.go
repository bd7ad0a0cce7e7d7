package attacks

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/test/harness"
)

// leave writes files, PATH=TEXT each; binds sockets, PATH= each; and removes -PATH.
func leave(args []string) int {
	for _, arg := range args {
		name, text, _ := strings.Cut(arg, "=")
		var err error
		switch gone, remove := strings.CutPrefix(name, "-"); {
		case remove:
			err = os.Remove(gone)
		case text == "":
			var fd int
			if fd, err = syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0); err == nil {
				err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: name})
			}
		default:
			err = os.WriteFile(name, []byte(text+"\n"), 0o600)
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
	}
	return 0
}

// lendable gives a caller tokens of every kind that is written somewhere inside: in variables, in
// settings of tools, in a login file. It returns them.
func lendable(t *testing.T, c *harness.Caller) []string {
	t.Helper()
	const access, refresh, custom = "sk-ant-oat01-canaryCANARY0123456789abcdef", "sk-ant-ort01-canaryCANARY9876543210fedcba", "tok_canary12345678901234567890"
	for name, text := range map[string]string{
		".git-credentials":     "https://me:" + gitPassword + "@" + gitHost + "\n",
		".config/gh/hosts.yml": "github.com:\n    oauth_token: " + gitHubToken + "\n    user: me\n",
		".npmrc":               "@corp:registry=https://" + npmHost + "/\n//" + npmHost + "/:_authToken=" + npmToken + "\n",
		".config/pip/pip.conf": "[global]\nindex-url = https://me:" + pipPassword + "@" + pipHost + "/simple/\n",
		".claude/.credentials.json": fmt.Sprintf(`{"claudeAiOauth":{"accessToken":%q,"refreshToken":%q,"expiresAt":%d,"scopes":["user:inference"]}}`,
			access, refresh, time.Now().Add(time.Hour).UnixMilli()),
	} {
		c.Mkdir(t, filepath.Dir(filepath.Join(c.Home, name)))
		c.Write(t, filepath.Join(c.Home, name), text)
		if err := os.Chmod(filepath.Join(c.Home, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := c.RunInput(custom+"\n", "secret", "set", "ci"); r.Code != 0 {
		t.Fatal(r)
	}
	return []string{gitPassword, gitHubToken, npmToken, pipPassword, access, refresh, custom}
}

// TestSavedImage saves a sandbox for others, in a file, at a registry and on the shelf. The result has
// the installed programs and its home, and nothing of the credentials it was lent, of its directories
// and sockets, or of other sandboxes. The file follows the specifications of OCI and Docker, checked
// without our own readers (C1, D14, D15, D16, D17, F1).
func TestSavedImage(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		registry := imagetest.NewRegistry(t)
		registry.Publish("team/base", "v1", imagetest.New(t, imagetest.Config{User: "node"}, imagetest.Layer(t,
			imagetest.File("etc/passwd", "root:x:0:0::/root:/bin/sh\nnode:x:1200:1200::/home/node:/bin/sh\n"), imagetest.File("etc/group", "root:x:0:\nnode:x:1200:\n"),
			imagetest.Dir("home/node").Owned(1200, 1200), imagetest.Dir("opt").Owned(1200, 1200), imagetest.File("opt/old", "x").Owned(1200, 1200),
		)))
		base, file, again := registry.Host+"/team/base:v1", filepath.Join(c.Work, "box.tar"), filepath.Join(c.Work, "again.tar")
		hidden := lendable(t, c)
		mark := func(where string) string {
			m := newMark() + "-" + where
			hidden = append(hidden, m)
			return m
		}
		volume := filepath.Join(c.Home, "data")
		c.Mkdir(t, volume)
		c.Mkdir(t, filepath.Join(c.Work, "own"))
		c.Write(t, filepath.Join(c.Work, "note"), mark("workspace"))
		c.Write(t, filepath.Join(volume, "note"), mark("volume"))
		me := c.Plant(t, c.Work)
		c.Must(t, "create", "--name", "box", "-t", base, "--agent-version", "template", "--lend", "git,github,npm,pip", "-v", volume+":/srv/data", "--private", "own", "claude", c.Work)
		c.Must(t, "secret", "lease", "ci", "--sandbox", "box", "--host", "ci.example.com:443", "--header", "x-token", "--env", "CI_TOKEN")
		c.Must(t, "create", "--name", "other", "shell", c.Work)
		c.Write(t, filepath.Join(c.State, "sandboxes", c.Inspect(t, "other").ID, "home", "note"), mark("other"))

		kept, deleted := newMark(), newMark()
		const home = "/home/node/"
		c.Must(t, "exec", "box", me, "intruder", "leave", "/opt/kept="+kept, home+"kept="+kept, "-/opt/old", "/opt/sock=", home+"sock=", "/tmp/sock=",
			home+".npmrc.user=fund=false", "/opt/deleted="+deleted, home+"deleted="+deleted,
			c.Work+"/own/note="+mark("private"), c.Work+"/inside="+mark("inside"), "/srv/data/inside="+mark("in-volume"), "/tmp/note="+mark("tmp"), "/dev/shm/note="+mark("shm"))
		c.Must(t, "exec", "box", me, "intruder", "leave", "-/opt/deleted", "-"+home+"deleted")
		stands := lent(t, c, "box")
		if before := allBelow(t, filepath.Join(c.State, "sandboxes", c.Inspect(t, "box").ID, "home")); !bytes.Contains(before, []byte(npmHost)) || !bytes.Contains(before, []byte("claudeAiOauth")) {
			t.Errorf("nothing that is lent stands in the home: the search below finds nothing in any case")
		}

		if out := c.Must(t, "save", "-o", file, "box", "tools:v1"); out != "tools:v1\n" {
			t.Errorf("save says %q", out)
		}
		c.Must(t, "template", "save", "-o", again, "tools:v1")
		c.Must(t, "template", "push", "tools:v1", registry.Host+"/team/tools:v1")
		archive := readAll(t, file)
		if !bytes.Equal(archive, readAll(t, again)) {
			t.Error("save -o writes another file than template save")
		}
		entries := oci(t, archive, "tools:v1")
		pushed := fromRegistry(t, registry.Host, "team/tools", "v1")
		shelf := allBelow(t, filepath.Join(c.State, "templates"))
		hidden = append(append(hidden, stands...), npmHost, pipHost, gitHost, fs.ModeSocket.String())
		for what, data := range map[string][]byte{"the file": unpacked(t, archive), "the registry": pushed, "the shelf": shelf} {
			if bytes.Count(data, []byte(kept)) != 2 {
				t.Errorf("%s does not have what is to be in it", what)
			}
			absent := hidden
			if what != "the shelf" { // it records the paths to leave out
				absent = append(slices.Clone(hidden), deleted, c.Work)
			}
			for _, v := range absent {
				harness.Absent(t, what+", searched for "+v+",", data, v)
			}
		}
		for _, name := range []string{"opt/kept", "opt/.wh.old", "home/node/kept", "home/node/.wh..wh..opq"} {
			if !slices.Contains(entries, name) {
				t.Errorf("no %s in the image: %q", name, entries)
			}
		}
		if i := slices.IndexFunc(entries, func(name string) bool { return strings.Contains(name, "sock") || strings.Contains(name, ".wh.deleted") }); i >= 0 {
			t.Errorf("the image has %s", entries[i])
		}
		c.Must(t, "rm", "-f", "box", "other")
		c.Must(t, "template", "rm", "-f", "tools:v1")
	})
}

// lent returns the placeholders of credentials in a sandbox.
func lent(t *testing.T, c *harness.Caller, name string) (stands []string) {
	t.Helper()
	var list struct {
		Leases []struct{ Sandbox, Placeholder, Renewal string }
	}
	if err := json.Unmarshal([]byte(c.Must(t, "secret", "ls", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	for _, l := range list.Leases {
		if stands = append(stands, l.Placeholder); l.Renewal != "" {
			stands = append(stands, l.Renewal)
		}
	}
	if len(stands) < 7 {
		t.Errorf("only %d are lent to %s", len(stands), name)
	}
	return stands
}

// allBelow returns the content of all files below a directory, and their names.
func allBelow(t *testing.T, dir string) (all []byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all = append(all, d.Type().String()+name[len(dir):]+"\n"...)
		if d.Type().IsRegular() {
			all = append(all, readAll(t, name)...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readAll(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// gunzip decompresses b. If b is not compressed, it returns b.
func gunzip(t *testing.T, b []byte) []byte {
	t.Helper()
	if !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		return b
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err == nil {
		b, err = io.ReadAll(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// unpacked returns all content of an archive, decompressed.
func unpacked(t *testing.T, archive []byte) []byte {
	t.Helper()
	all := slices.Clone(archive)
	for _, b := range filesOf(t, archive) {
		all = append(all, gunzip(t, b)...)
	}
	return all
}

// filesOf returns the regular files of an archive.
func filesOf(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for tr := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if _, twice := files[h.Name]; twice || h.Typeflag != tar.TypeReg || path.Clean(h.Name) != h.Name {
			t.Errorf("%q (%c) in the archive", h.Name, h.Typeflag)
		}
		if files[h.Name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
	}
}

// fromRegistry returns everything that a registry has of an image, also as it was before compression.
func fromRegistry(t *testing.T, host, repository, tag string) (all []byte) {
	t.Helper()
	get := func(what, ref string) []byte {
		resp, err := http.Get("http://" + host + "/v2/" + repository + "/" + what + "/" + ref)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %s, %v", what, ref, resp.Status, err)
		}
		return b
	}
	manifest := get("manifests", tag)
	var m ociManifest
	strict(t, "the manifest", manifest, &m)
	all = append(all, manifest...)
	for _, d := range append(m.Layers, m.Config) {
		b := get("blobs", d.Digest)
		all = append(append(all, b...), gunzip(t, b)...)
	}
	return all
}

// The documents that describe an image, in the terms of OCI's image specification 1.1, and of docker
// save.
type (
	ociDescriptor struct {
		MediaType, Digest string
		Size              int64
		Annotations       map[string]string
	}
	ociManifest struct {
		SchemaVersion int
		MediaType     string
		Config        ociDescriptor
		Layers        []ociDescriptor
	}
	ociIndex struct {
		SchemaVersion int
		MediaType     string
		Manifests     []ociDescriptor
	}
	dockerManifest struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
)

// strict reads JSON that has no other fields.
func strict(t *testing.T, what string, b []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%s: %v\n%s", what, err, b)
	}
}

// oci checks an archive with one image, and returns the entries of its last layer.
func oci(t *testing.T, archive []byte, name string) (entries []string) {
	t.Helper()
	files := filesOf(t, archive)
	if got := string(files["oci-layout"]); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %q", got)
	}
	used := map[string]bool{"oci-layout": true, "index.json": true, "manifest.json": true}
	blob := func(d ociDescriptor, mediaType string) []byte {
		at := "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:")
		used[at] = true
		if b := files[at]; d.MediaType != mediaType || d.Size != int64(len(b)) || d.Digest != fmt.Sprintf("sha256:%x", sha256.Sum256(b)) {
			t.Errorf("%+v is no %s of %d bytes", d, mediaType, len(b))
		}
		return files[at]
	}
	var index ociIndex
	strict(t, "index.json", files["index.json"], &index)
	if index.SchemaVersion != 2 || index.MediaType != "application/vnd.oci.image.index.v1+json" || len(index.Manifests) != 1 {
		t.Fatalf("index.json is %+v", index)
	}
	top := index.Manifests[0]
	_, tag, _ := strings.Cut(name, ":")
	if top.Annotations["org.opencontainers.image.ref.name"] != tag || top.Annotations["io.containerd.image.name"] != "docker.io/library/"+name || len(top.Annotations) != 2 {
		t.Errorf("it is called %q", top.Annotations)
	}
	var m ociManifest
	strict(t, "the manifest", blob(top, "application/vnd.oci.image.manifest.v1+json"), &m)
	var config struct {
		OS, Architecture string
		Rootfs           struct {
			Type    string
			DiffIDs []string `json:"diff_ids"`
		}
		History []struct {
			Empty bool `json:"empty_layer"`
		}
	}
	if err := json.Unmarshal(blob(m.Config, "application/vnd.oci.image.config.v1+json"), &config); err != nil {
		t.Fatal(err)
	}
	var diffIDs []string
	docker := dockerManifest{Config: "blobs/sha256/" + strings.TrimPrefix(m.Config.Digest, "sha256:"), RepoTags: []string{name}}
	for _, l := range m.Layers {
		plain := gunzip(t, blob(l, "application/vnd.oci.image.layer.v1.tar+gzip"))
		diffIDs = append(diffIDs, fmt.Sprintf("sha256:%x", sha256.Sum256(plain)))
		docker.Layers = append(docker.Layers, "blobs/sha256/"+strings.TrimPrefix(l.Digest, "sha256:"))
		entries = ociLayer(t, plain)
	}
	if len(m.Layers) < 2 || m.SchemaVersion != 2 || m.MediaType != top.MediaType || config.OS != "linux" || config.Architecture == "" || config.Rootfs.Type != "layers" || !slices.Equal(config.Rootfs.DiffIDs, diffIDs) {
		t.Errorf("%+v with layers %q is not what %+v says", config, diffIDs, m)
	}
	if steps := slices.DeleteFunc(config.History, func(h struct {
		Empty bool `json:"empty_layer"`
	},
	) bool {
		return h.Empty
	}); len(steps) != 0 && len(steps) != len(m.Layers) {
		t.Errorf("%d steps made %d layers", len(steps), len(m.Layers))
	}
	var saved []dockerManifest
	strict(t, "manifest.json", files["manifest.json"], &saved)
	if len(saved) != 1 || fmt.Sprint(saved[0]) != fmt.Sprint(docker) {
		t.Errorf("manifest.json is %+v and not %+v", saved, docker)
	}
	for at := range files {
		if !used[at] {
			t.Errorf("%s belongs to nothing", at)
		}
	}
	return entries
}

// ociLayer checks the tar archive of a layer, and returns the names in it.
func ociLayer(t *testing.T, plain []byte) (entries []string) {
	t.Helper()
	for tr := tar.NewReader(bytes.NewReader(plain)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(h.Name, "/")
		switch {
		case name == "" || path.IsAbs(name) || slices.Contains(entries, name) || name != "." && (path.Clean(name) != name || strings.HasPrefix(name, "..")):
			t.Errorf("an entry %q", h.Name)
		case strings.HasPrefix(path.Base(name), ".wh.") && (h.Typeflag != tar.TypeReg || h.Size != 0):
			t.Errorf("%s is no whiteout: %+v", name, h)
		case h.Typeflag == tar.TypeLink && !slices.Contains(entries, h.Linkname):
			t.Errorf("%s is another name of %s, which comes later or not at all", name, h.Linkname)
		case !strings.ContainsRune("\x000125", rune(h.Typeflag)): // files, links and directories
			t.Errorf("%s is of the kind %c", name, h.Typeflag)
		}
		entries = append(entries, name)
	}
}
