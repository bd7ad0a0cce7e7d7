package npm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agent/registrytest"
	"github.com/bothy-dev/bothy/spec"
)

// noise returns incompressible bytes.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// fetchable publishes bytes and returns their tarball.
func fetchable(t *testing.T, body []byte) (*registrytest.Registry, *Client, Tarball, string) {
	t.Helper()
	r := registrytest.New(t)
	v := r.Publish("tool", "1.0.0", body)
	c := client(t, r.Env(t))
	u, err := c.config.registry("tool")
	must(t, err)
	release := Release{Package: "tool", Version: "1.0.0", registry: u}
	release.document.Dist.Tarball, release.document.Dist.Integrity = v.Dist.Tarball, v.Dist.Integrity
	got, err := c.Platform(t.Context(), release, agent.Platform{})
	must(t, err)
	return r, c, got, filepath.Join(t.TempDir(), "part")
}

func fetchTarball(t *testing.T, c *Client, what Tarball, path string) ([]byte, error) {
	t.Helper()
	var last int64
	f, err := c.Download(t.Context(), what, path, func(done, total int64) {
		if done < 0 || total != 0 && done > total {
			t.Errorf("%d of %d", done, total)
		}
		last = done
	})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if last != 0 && last != int64(len(b)) {
		t.Errorf("told of %d bytes of %d", last, len(b))
	}
	return b, err
}

func TestDownload(t *testing.T) {
	body := noise(1 << 20)
	r, c, what, path := fetchable(t, body)
	got, err := fetchTarball(t, c, what, path)
	if err != nil || !bytes.Equal(got, body) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	// The file is complete: the registry is not asked again.
	got, err = fetchTarball(t, c, what, path)
	if err != nil || !bytes.Equal(got, body) || len(r.Asked(".tgz")) != 1 {
		t.Errorf("%d bytes, %v, %d requests", len(got), err, len(r.Asked(".tgz")))
	}
}

func TestDownloadGoesOn(t *testing.T) {
	body := noise(1 << 20)
	half := len(body) / 2
	whole := func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = w.Write(body)
		return true
	}
	for _, tt := range []struct {
		name   string
		part   []byte
		before func(http.ResponseWriter, *http.Request) bool
		ranges []string
	}{
		{"half is there", body[:half], nil, []string{"bytes=" + strconv.Itoa(half) + "-"}},
		{"the server has no ranges", body[:half], whole, []string{"bytes=" + strconv.Itoa(half) + "-"}},
		{"what is there is damaged", noise(half + 1)[1:], nil, []string{"bytes=" + strconv.Itoa(half) + "-", ""}},
		{"too much is there", append(bytes.Clone(body), 'x'), nil, []string{"bytes=" + strconv.Itoa(len(body)+1) + "-", ""}},
		{"nothing is there", nil, nil, []string{""}},
	} {
		r, c, what, path := fetchable(t, body)
		r.Before = tt.before
		if tt.part != nil {
			must(t, os.WriteFile(path, tt.part, 0o600))
		}
		got, err := fetchTarball(t, c, what, path)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: %d bytes, %v", tt.name, len(got), err)
		}
		var ranges []string
		for _, a := range r.Asked(".tgz") {
			ranges = append(ranges, a.Header.Get("Range"))
		}
		if strings.Join(ranges, " ") != strings.Join(tt.ranges, " ") || len(ranges) != len(tt.ranges) {
			t.Errorf("%s: asked for %q", tt.name, ranges)
		}
	}
}

// TestDownloadBreaks checks that after a broken connection another one fetches the rest. A
// connection without progress ends the download, and the partial file stays.
func TestDownloadBreaks(t *testing.T) {
	body := noise(1 << 20)
	r, c, what, path := fetchable(t, body)
	r.Before = func(w http.ResponseWriter, q *http.Request) bool {
		from, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(q.Header.Get("Range"), "bytes="), "-"))
		if err == nil {
			w.Header().Set("Content-Range", "bytes "+strconv.Itoa(from)+"-"+strconv.Itoa(len(body)-1)+"/"+strconv.Itoa(len(body)))
			w.Header().Set("Content-Length", strconv.Itoa(len(body)-from))
			w.WriteHeader(http.StatusPartialContent)
		} else {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		_, _ = w.Write(body[from:min(from+300<<10, len(body))])
		return true
	}
	got, err := fetchTarball(t, c, what, path)
	if err != nil || !bytes.Equal(got, body) || len(r.Asked(".tgz")) != 4 {
		t.Errorf("%d bytes, %v, %d requests", len(got), err, len(r.Asked(".tgz")))
	}
	must(t, os.WriteFile(path, body[:1000], 0o600))
	r.Before = func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }
	if _, err := fetchTarball(t, c, what, path); !errors.Is(err, ErrUnreachable) {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, body[:1000]) {
		t.Errorf("%d bytes are left, %v", len(left), err)
	}
}

func TestDownloadRefused(t *testing.T) {
	body := noise(1 << 20)
	for name, before := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"a bit changed": func(w http.ResponseWriter, _ *http.Request) bool {
			b := bytes.Clone(body)
			b[77] ^= 1
			_, _ = w.Write(b)
			return true
		},
		"shorter":  func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write(body[:1000]); return true },
		"longer":   func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write(append(body, 'x')); return true },
		"nothing":  func(http.ResponseWriter, *http.Request) bool { return true },
		"a letter": func(w http.ResponseWriter, _ *http.Request) bool { _, _ = io.WriteString(w, "Sorry!"); return true },
	} {
		for _, part := range [][]byte{nil, body[:500]} {
			r, c, what, path := fetchable(t, body)
			r.Before = before
			must(t, os.WriteFile(path, part, 0o600))
			_, err := fetchTarball(t, c, what, path)
			if !errors.Is(err, spec.ErrDenied) || !strings.Contains(err.Error(), "tool 1.0.0 is refused: its hash") {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: it is kept", name)
			}
		}
	}
}

func TestDownloadTooLarge(t *testing.T) {
	body := noise(1 << 20)
	for name, before := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"as it says": nil,
		"silently": func(w http.ResponseWriter, _ *http.Request) bool {
			_ = http.NewResponseController(w).Flush()
			for range 100 {
				if _, err := w.Write(body); err != nil {
					break
				}
			}
			return true
		},
	} {
		r, c, what, path := fetchable(t, body)
		r.Before = before
		c.MaxTarball = int64(len(body)) - 1
		if _, err := fetchTarball(t, c, what, path); !errors.Is(err, spec.ErrDenied) || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Stat(path); err == nil && info.Size() >= int64(len(body)) {
			t.Errorf("%s: %d bytes were stored", name, info.Size())
		}
	}
}

func TestDownloadCancelled(t *testing.T) {
	body := noise(1 << 20)
	r, c, what, path := fetchable(t, body)
	r.Before = func(w http.ResponseWriter, q *http.Request) bool {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:1000])
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
		return true
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	_, err := c.Download(ctx, what, path, func(done, _ int64) {
		if done == 1000 {
			cancel(enough)
		}
	})
	if !errors.Is(err, enough) || len(r.Asked(".tgz")) != 1 {
		t.Errorf("%v, %d requests", err, len(r.Asked(".tgz")))
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 1000 {
		t.Errorf("%v, %v", info, err)
	}
}
