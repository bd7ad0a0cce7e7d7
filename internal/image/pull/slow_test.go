package pull

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/bothy-dev/bothy/internal/fetch"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/spec"
)

// slow is a registry that delivers no blob until goOn is called. asked reports the first
// request for a blob.
func slow(t *testing.T, r *imagetest.Registry) (host string, asked <-chan struct{}, goOn func()) {
	t.Helper()
	first, release := make(chan struct{}), make(chan struct{})
	once, released := sync.Once{}, sync.Once{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: r.Host})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.Contains(q.URL.Path, "/blobs/") {
			once.Do(func() { close(first) })
			<-release
		}
		proxy.ServeHTTP(w, q)
	}))
	goOn = func() { released.Do(func() { close(release) }) }
	t.Cleanup(server.Close)
	t.Cleanup(goOn)
	return strings.TrimPrefix(server.URL, "http://"), first, goOn
}

// TestSlowRegistry checks that other orders do not wait for a slow registry. Nothing that
// was fetched from it is removed meanwhile, and two orders for the same image fetch it
// once.
func TestSlowRegistry(t *testing.T) {
	b, r := newBench(t), imagetest.NewRegistry(t)
	r.Publish("tools", "v1", small(t, "slow"))
	host, asked, goOn := slow(t, r)
	var all sync.WaitGroup
	pull := func(told func(image.Event)) {
		all.Go(func() {
			o := image.Order{State: b.state, Pull: host + "/tools:v1", UID: 1000, GID: 1000}
			if _, err := Do(t.Context(), o, told); err != nil {
				t.Error(err)
			}
		})
	}
	pull(func(image.Event) {})
	<-asked
	name := filepath.Join(t.TempDir(), "other.tar")
	small(t, "other").Save(t, name, "other:v1")
	waits := errors.New("it waits for the registry")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	_, err := Do(ctx, image.Order{State: b.state, Load: name, UID: 1000, GID: 1000}, func(e image.Event) {
		if e.Phase == image.Waiting {
			cancel(waits)
		}
	})
	must(t, err)
	if _, err := b.shelf.Sweep(nil); !errors.Is(err, image.ErrHeld) {
		t.Errorf("what is being fetched could be removed: %v", err)
	}
	if _, err := b.shelf.SweepParts(); !errors.Is(err, image.ErrHeld) {
		t.Errorf("a download could be removed: %v", err)
	}
	second, once := make(chan struct{}), sync.Once{}
	pull(func(e image.Event) {
		if e.Phase == image.Waiting {
			once.Do(func() { close(second) })
		}
	})
	<-second
	goOn()
	all.Wait()
	if n := len(r.Asked("/blobs/")); n != 3 {
		t.Errorf("%d blobs were asked for", n)
	}
	if parts, err := b.shelf.Parts(); err != nil || len(parts) != 0 {
		t.Errorf("%v is left, %v", parts, err)
	}
	if left, err := b.shelf.Strays(nil); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestShortBlob checks that a blob shorter than its manifest says counts as a mismatch, and
// not as a network failure.
func TestShortBlob(t *testing.T) {
	b, r := newBench(t), imagetest.NewRegistry(t)
	i := small(t, "short")
	text := fmt.Appendf(nil, `{"schemaVersion":2,"config":{"mediaType":%q,"digest":%q,"size":%d},"layers":[{"digest":%q,"size":%d}]}`,
		i.Manifest.Config.MediaType, i.Manifest.Config.Digest, i.Manifest.Config.Size, i.Manifest.Layers[0].Digest, i.Manifest.Layers[0].Size+5)
	i.Descriptor = describe(image.TypeManifest, text)
	i.Blobs[i.Digest] = text
	r.Publish("tools", "v1", i)
	if _, err := b.do(t, image.Order{Pull: r.Host + "/tools:v1"}); !errors.Is(err, spec.ErrDenied) || !errors.Is(err, errMismatch) {
		t.Errorf("%v", err)
	}
}

// answer is a registry that always returns the same response.
type answer func() *http.Response

func (a answer) RoundTrip(*http.Request) (*http.Response, error) { return a(), nil }

// TestTrickle checks that a download that is too slow is not retried, and that the next
// pull resumes it.
func TestTrickle(t *testing.T) {
	b := newBench(t)
	must(t, b.shelf.Make())
	w := &worker{shelf: b.shelf, progress: func(image.Event) {}}
	asked := 0
	reg := &registry{base: &url.URL{Scheme: "http", Host: "localhost", Path: "/v2/tools/"}, http: &http.Client{Transport: answer(func() *http.Response {
		asked++
		body := io.MultiReader(strings.NewReader("slow"), iotest.ErrReader(fetch.ErrSlow))
		return &http.Response{StatusCode: http.StatusOK, ContentLength: 10, Body: io.NopCloser(body)}
	})}}
	d := describe("", []byte("slow, slow"))
	if err := w.download(t.Context(), reg, d, func(int64) {}); !errors.Is(err, fetch.ErrSlow) || asked != 1 {
		t.Errorf("%v, after it was asked for %d times", err, asked)
	}
	if text, err := os.ReadFile(b.shelf.Part(d.Digest)); err != nil || string(text) != "slow" {
		t.Errorf("%q is there, %v", text, err)
	}
}
