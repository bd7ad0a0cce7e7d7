package gateway

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
)

// bulkBound is how much the heap may have grown in TestBulkInConstantMemory, with the client, the
// server and two network stacks in it, while bulk passes each way. A gateway that gathered a body
// would need bulk bytes, which is much more. With a GiB the heap grew by 30 MiB, as it does here;
// that takes 12 s of a processor.
const bulkBound = 96 << 20

// watcher watches the heap as bytes pass.
type watcher struct {
	passed int64
	most   uint64
}

func (h *watcher) pass(n int64) {
	const every = bulk / 4
	if h.passed += n; h.passed%every < n {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		h.most = max(h.most, m.HeapInuse)
	}
}

func (h *watcher) Write(b []byte) (int, error) {
	h.pass(int64(len(b)))
	return len(b), nil
}

// copyAll reads to the end, and watches the heap.
func copyAll(r io.Reader) (*watcher, error) {
	h := &watcher{}
	_, err := io.CopyBuffer(struct{ io.Writer }{h}, r, make([]byte, 256<<10))
	return h, err
}

// TestBulkInConstantMemory checks that uploads and downloads pass an inspected connection without
// being kept there.
func TestBulkInConstantMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes four seconds of a processor, and many more under the race detector")
	}
	up := make(chan *watcher, 1)
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
		h, err := copyAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		up <- h
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Length", fmt.Sprint(bulk))
			_, _ = io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(zeros{}, bulk), make([]byte, 256<<10))
		}
	})
	w := start(t, document(t, 1, "allow: [{host: api.example.com, methods: [GET, PUT]}]\n"), apiHosts, o.trusting)
	for _, h2 := range []bool{false, true} {
		sent, got, before := bulkBothWays(t, w.client(t, h2), fmt.Sprintf("https://api.example.com:%d/", o.port), up)
		for what, h := range map[string]*watcher{"up": sent, "down": got} {
			if h.passed != bulk || h.most == 0 || h.most > before+bulkBound {
				t.Errorf("h2 %t, %s: %d bytes arrived, and the heap went from %d to %d MiB", h2, what, h.passed, before>>20, h.most>>20)
			}
		}
	}
}

// bulkBothWays uploads and downloads. It returns a watcher of each, and the heap before.
func bulkBothWays(t *testing.T, c *http.Client, url string, up <-chan *watcher) (sent, got *watcher, before uint64) {
	t.Helper()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	do := func(method string, body io.Reader, size int64) *watcher {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, body)
		must(t, err)
		r.ContentLength = size
		resp, err := c.Do(r)
		must(t, err)
		defer resp.Body.Close()
		h, err := copyAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, %v", method, resp.StatusCode, err)
		}
		return h
	}
	do(http.MethodPut, io.LimitReader(zeros{}, bulk), bulk)
	sent = <-up
	got = do(http.MethodGet, nil, 0)
	<-up
	return sent, got, m.HeapInuse
}
