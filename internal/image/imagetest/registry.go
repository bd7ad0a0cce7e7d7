package imagetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/image"
)

// Registry is a registry that speaks plain HTTP on the loopback.
type Registry struct {
	Host string // and port

	// User and Password, if set, are required to get a token.
	User, Password string
	// Identity is a token that is accepted instead.
	Identity string
	// Break ends the first answers with blobs after this many bytes.
	Break int
	// Tamper changes blobs as they are sent.
	Tamper bool
	// ReadOnly refuses pushes. Busy is the number of uploads to break off.
	ReadOnly bool
	Busy     int

	mu     sync.Mutex
	server *httptest.Server
	tags   map[string]string // by REPOSITORY:TAG
	blobs  map[string][]byte
	types  map[string]string
	broken map[string]bool
	asked  []string
	away   map[string]bool // blobs that only another repository has
}

// NewRegistry starts a registry.
func NewRegistry(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{tags: map[string]string{}, blobs: map[string][]byte{}, types: map[string]string{}, broken: map[string]bool{}}
	r.server = httptest.NewServer(r)
	r.Host = strings.TrimPrefix(r.server.URL, "http://")
	t.Cleanup(r.Close)
	return r
}

// Close stops the registry.
func (r *Registry) Close() { r.server.Close() }

// Publish publishes an image under a tag.
func (r *Registry) Publish(repository, tag string, i *Image) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tags[repository+":"+tag] = i.Digest
	r.types[i.Digest] = i.MediaType
	maps.Copy(r.blobs, i.Blobs)
}

// PublishFeature publishes an archive under a tag, as a feature of development containers. It returns
// the digest.
func (r *Registry) PublishFeature(t testing.TB, repository, tag string, archive []byte) string {
	i := &Image{Blobs: map[string][]byte{}}
	i.Manifest.SchemaVersion, i.Manifest.MediaType = 2, image.TypeManifest
	i.Manifest.Config = i.addBlob("application/vnd.devcontainers", []byte("{}"))
	i.Manifest.Layers = []image.Descriptor{i.addBlob("application/vnd.devcontainers.layer.v1+tar", archive)}
	i.Descriptor = i.addBlob(image.TypeManifest, encode(t, i.Manifest))
	r.Publish(repository, tag, i)
	return i.Digest
}

// Away moves all blobs to another repository, until they are mounted.
func (r *Registry) Away() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = map[string]bool{}
	for digest := range r.blobs {
		r.away[digest] = true
	}
}

// Asked returns the requested paths that contain a word.
func (r *Registry) Asked(word string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.asked), func(p string) bool { return !strings.Contains(p, word) })
}

const token = "token-of-the-registry"

// ServeHTTP answers as the registry, for a server that the caller runs.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, strings.TrimSpace(q.Method+" "+q.URL.Path+" "+q.URL.RawQuery+" "+q.Header.Get("Range")))
	if q.URL.Path == "/token" {
		user, password, _ := q.BasicAuth()
		if user != r.User || password != r.Password {
			if q.Method == http.MethodPost && q.PostFormValue("grant_type") == "refresh_token" && r.Identity != "" && q.PostFormValue("refresh_token") == r.Identity {
				fmt.Fprintf(w, `{"access_token":%q}`, token)
				return
			}
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"token":%q}`, token)
		return
	}
	if r.User != "" && q.Header.Get("Authorization") != "Bearer "+token {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="test"`, r.Host))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if q.URL.Path == "/v2/" {
		return
	}
	if q.Method == http.MethodPost || q.Method == http.MethodPut {
		r.acceptPush(w, q)
		return
	}
	if repository, what, ok := strings.Cut(strings.TrimPrefix(q.URL.Path, "/v2/"), "/manifests/"); ok {
		digest := what
		if !strings.Contains(what, ":") {
			digest = r.tags[repository+":"+what]
		}
		b, ok := r.blobs[digest]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if kind := r.types[digest]; kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		_, _ = w.Write(b)
		return
	}
	if _, digest, ok := strings.Cut(q.URL.Path, "/blobs/"); ok && r.blobs[digest] != nil && !r.away[digest] {
		r.serveBlob(w, q, digest)
		return
	}
	w.WriteHeader(http.StatusNotFound)
}

// acceptPush accepts a push like a registry: blobs in one piece, and manifests whose blobs exist.
func (r *Registry) acceptPush(w http.ResponseWriter, q *http.Request) {
	if r.ReadOnly {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if q.Method == http.MethodPost {
		if digest := q.URL.Query().Get("mount"); r.blobs[digest] != nil {
			delete(r.away, digest)
			w.WriteHeader(http.StatusCreated)
			return
		}
		w.Header().Set("Location", q.URL.Path+"an-upload?state=begun")
		w.WriteHeader(http.StatusAccepted)
		return
	}
	b, err := io.ReadAll(q.Body)
	digest := image.DigestOf(b)
	if repository, tag, ok := strings.Cut(strings.TrimPrefix(q.URL.Path, "/v2/"), "/manifests/"); ok {
		m := image.Manifest{}
		err := json.Unmarshal(b, &m)
		for _, d := range append(m.Layers, m.Config) {
			if r.blobs[d.Digest] == nil || err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
		}
		r.tags[repository+":"+tag], r.types[digest], r.blobs[digest] = digest, q.Header.Get("Content-Type"), b
		w.Header().Set("Docker-Content-Digest", digest)
		w.WriteHeader(http.StatusCreated)
		return
	}
	switch {
	case r.Busy > 0:
		r.Busy--
		w.WriteHeader(http.StatusServiceUnavailable)
	case err != nil || q.URL.Query().Get("state") != "begun" || q.URL.Query().Get("digest") != digest || q.ContentLength != int64(len(b)):
		w.WriteHeader(http.StatusBadRequest)
	default:
		r.blobs[digest] = b
		w.WriteHeader(http.StatusCreated)
	}
}

func (r *Registry) serveBlob(w http.ResponseWriter, q *http.Request, digest string) {
	b := r.blobs[digest]
	if r.Tamper {
		b = slices.Clone(b)
		b[len(b)-1] ^= 1
	}
	if r.Break > 0 && !r.broken[digest] && len(b) > r.Break {
		r.broken[digest] = true
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		_, _ = w.Write(b[:r.Break])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(b))
}
