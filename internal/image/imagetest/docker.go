package imagetest

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Docker is an engine that serves images on a unix socket, as after docker build.
type Docker struct {
	// Socket is the path it listens on.
	Socket string
	// Cut ends the output of a save after this many bytes, unless it is 0.
	Cut int

	t      testing.TB
	server *http.Server
	mu     sync.Mutex
	images map[string]*Image // by NAME:TAG
	asked  []string
}

// NewDocker starts a Docker in a directory.
func NewDocker(t testing.TB, dir string) *Docker {
	t.Helper()
	d := &Docker{Socket: filepath.Join(dir, "docker.sock"), t: t, images: map[string]*Image{}}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", d.Socket)
	mustSucceed(t, err)
	d.server = &http.Server{Handler: http.HandlerFunc(d.serveHTTP)}
	go func() { _ = d.server.Serve(l) }()
	t.Cleanup(func() { _ = d.server.Close() })
	return d
}

// Tag gives an image a name.
func (d *Docker) Tag(name string, i *Image) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.images[name] = i
}

// Remove takes a name from its image.
func (d *Docker) Remove(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.images, name)
}

// Asked returns the requested paths.
func (d *Docker) Asked() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.asked)
}

func (d *Docker) serveHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, r.URL.Path)
	path := strings.TrimPrefix(r.URL.Path, "/images/")
	n := strings.LastIndexByte(path, '/')
	i := d.images[path[:max(n, 0)]]
	switch {
	case i == nil:
		http.Error(w, `{"message":"No such image"}`, http.StatusNotFound)
	case path[n:] == "/json":
		fmt.Fprintf(w, `{"Id":%q,"RepoTags":[%q]}`, i.Manifest.Config.Digest, path[:n])
	case path[n:] == "/get":
		b := i.archive(d.t, path[:n])
		if d.Cut > 0 {
			b = b[:d.Cut]
		}
		_, _ = w.Write(b)
	default:
		http.NotFound(w, r)
	}
}
