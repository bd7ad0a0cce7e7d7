// Package registrytest is an npm registry for tests. It uses TLS with its own authority, and has the
// faults that a test wants.
package registrytest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Registry is a running registry.
type Registry struct {
	*httptest.Server
	// CA is a file with its authority.
	CA string
	// Before is called before each answer. It reports whether it has answered itself.
	Before func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	packages map[string]*document
	tarballs map[string][]byte
	asked    []*http.Request
}

type document struct {
	Name     string              `json:"name"`
	Tags     map[string]string   `json:"dist-tags"`
	Versions map[string]*Version `json:"versions"`
}

// Version is the registry's document about a version.
type Version struct {
	Name     string            `json:"name"`
	Version  string            `json:"version"`
	Optional map[string]string `json:"optionalDependencies,omitempty"`
	Bin      map[string]string `json:"bin,omitempty"`
	Dist     Dist              `json:"dist"`
}

// Dist has the address of its tarball.
type Dist struct {
	Tarball   string `json:"tarball"`
	Integrity string `json:"integrity,omitempty"`
	Shasum    string `json:"shasum,omitempty"`
}

// New starts a registry that ends with the test.
func New(t testing.TB) *Registry {
	r := &Registry{packages: map[string]*document{}, tarballs: map[string][]byte{}, CA: filepath.Join(t.TempDir(), "ca.pem")}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(r.answerRequest))
	t.Cleanup(r.Close)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
	if err := os.WriteFile(r.CA, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// Env returns an environment with this registry and an empty home.
func (r *Registry) Env(t testing.TB, more ...string) []string {
	return append([]string{"HOME=" + t.TempDir(), "npm_config_registry=" + r.URL, "npm_config_cafile=" + r.CA, "npm_config_globalconfig=/nowhere"}, more...)
}

// Host returns its name and port.
func (r *Registry) Host() string { return r.Listener.Addr().String() }

// Publish makes a version the latest and returns its document, which the test may change before a client
// requests it.
func (r *Registry) Publish(pkg, version string, tarball []byte) *Version {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.packages[pkg]
	if d == nil {
		d = &document{Name: pkg, Tags: map[string]string{}, Versions: map[string]*Version{}}
		r.packages[pkg] = d
	}
	path := fmt.Sprintf("/%s/-/%s-%s.tgz", pkg, pkg[strings.LastIndexByte(pkg, '/')+1:], version)
	r.tarballs[path] = tarball
	v := &Version{Name: pkg, Version: version, Dist: Dist{Tarball: r.URL + path, Integrity: Integrity(tarball)}}
	d.Tags["latest"], d.Versions[version] = version, v
	return v
}

// Replace changes the bytes of a tarball, but not its document.
func (r *Registry) Replace(v *Version, tarball []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tarballs[strings.TrimPrefix(v.Dist.Tarball, r.URL)] = tarball
}

// Asked returns the requests whose path has a suffix.
func (r *Registry) Asked(suffix string) (list []*http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asked {
		if strings.HasSuffix(a.RequestURI, suffix) {
			list = append(list, a)
		}
	}
	return list
}

func (r *Registry) answerRequest(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.asked = append(r.asked, q)
	name := strings.Replace(strings.TrimPrefix(q.URL.EscapedPath(), "/"), "%2f", "/", 1)
	var text []byte
	if d := r.packages[name]; d != nil && strings.Count(q.URL.EscapedPath(), "/") == 1 {
		text, _ = json.Marshal(d)
	}
	tarball, ok := r.tarballs[q.URL.Path]
	r.mu.Unlock()
	switch {
	case r.Before != nil && r.Before(w, q):
	case text != nil:
		_, _ = w.Write(text)
	case ok:
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(tarball))
	default:
		http.NotFound(w, q)
	}
}

// Integrity returns the integrity of a tarball in the document.
func Integrity(tarball []byte) string {
	sum := sha512.Sum512(tarball)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Tarball packs entries. Unset fields get npm's usual values.
func Tarball(t testing.TB, entries ...Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := e.Header
		h.Size = int64(len(e.Body))
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 && h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o644
		}
		err := w.WriteHeader(&h)
		if err == nil {
			_, err = w.Write([]byte(e.Body))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Entry is an entry of a tarball.
type Entry struct {
	tar.Header
	Body string
}

// File returns an ordinary entry.
func File(name, body string) Entry { return Entry{tar.Header{Name: name}, body} }

// Program returns an executable entry.
func Program(name, body string) Entry { return Entry{tar.Header{Name: name, Mode: 0o755}, body} }
