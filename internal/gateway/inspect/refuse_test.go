package inspect

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// pipe is a connection in memory.
type pipe struct{ net.Conn }

func (p pipe) CloseWrite() error { return p.Close() }
func (p pipe) Reset()            { _ = p.Close() }
func (pipe) Await()              {}

// TestRefusedStreamEnds checks that a refused client that takes no answer loses its stream, and
// that the connection goes on.
func TestRefusedStreamEnds(t *testing.T) {
	nothing, err := policy.Compile(1)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		authority, err := ca.New("box", time.Now) // of the bubble's time
		if err != nil {
			t.Fatal(err)
		}
		i := New(Config{
			Judge: func(h upstream.Host, r *policy.Request) policy.Decision {
				return nothing.Decide(policy.Query{Stage: policy.StageRequest, Name: h.Name, Port: h.Port, Request: r})
			},
			Certificate: authority.Leaf, Secrets: func() *inject.Set { return nil },
			Log: func(spec.NetworkRecord, *policy.Decision) {},
		})
		defer i.Close()
		inside, far := net.Pipe()
		defer inside.Close()
		go func() {
			_ = i.Serve(t.Context(), pipe{far}, nil, upstream.Host{Name: "api.example.com", Port: 443, TLS: true}, &relay.Counts{}, &Track{})
		}()
		c := tls.Client(inside, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // a test's
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(c.Handshake())
		answers, resets := make(chan uint32, 4), make(chan uint32, 4)
		go func() {
			defer close(answers)
			defer close(resets)
			for {
				kind, stream, err := readFrame(c)
				if err != nil {
					return
				}
				switch kind {
				case frameHeaders:
					answers <- stream
				case frameReset:
					resets <- stream
				}
			}
		}()
		_, err = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		must(err)
		must(writeFrame(c, frameSettings, 0, 0, []byte{0, 4, 0, 0, 0, 0})) // a window of no bytes
		// As in the static table: GET, https, /, and the authority.
		head := append([]byte{0x82, 0x87, 0x84, 0x01, byte(len("api.example.com"))}, "api.example.com"...)
		for _, stream := range []uint32{1, 3} { // one after the other
			must(writeFrame(c, frameHeaders, 5, stream, head)) // the end of headers and stream
			if got := <-answers; got != stream {
				t.Fatalf("stream %d is not answered, but %d", stream, got)
			}
			if got, ok := <-resets; !ok || got != stream {
				t.Fatalf("stream %d does not end, but %d", stream, got)
			}
		}
	})
}

// Types of frames of HTTP/2.
const (
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
)

func writeFrame(w io.Writer, kind, flags byte, stream uint32, payload []byte) error {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = binary.BigEndian.AppendUint32(append(b, flags), stream)
	_, err := w.Write(append(b, payload...))
	return err
}

func readFrame(r io.Reader) (kind byte, stream uint32, err error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, err
	}
	size := binary.BigEndian.Uint32(head[:]) >> 8
	_, err = io.CopyN(io.Discard, r, int64(size))
	return head[3], binary.BigEndian.Uint32(head[5:]), err
}

// TestRefusalBody checks that each client gets the reason in a form that it shows.
func TestRefusalBody(t *testing.T) {
	told := refusal{Reason: "no rule allows it", Command: "bothy policy allow host"}
	const agent = "npm/11.19.1 node/v20.20.2 linux x64 workspaces/false"
	object := func(body string) any {
		var got struct{ Error any }
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		return got.Error
	}
	for name, asked := range map[string]http.Header{
		"npm, about a package":   {"User-Agent": {agent}, "Accept": {"application/json"}, "Npm-Command": {"install"}},
		"npm, about itself":      {"User-Agent": {agent}, "Accept": {"application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*"}},
		"npm, for an archive":    {"User-Agent": {agent}, "Accept": {"*/*"}},
		"another, for a package": {"Accept": {"application/vnd.npm.install-v1+json"}},
	} {
		if contentType, body := told.bodyFor(asked); contentType != "application/json" || object(body) != told.textForUser() {
			t.Errorf("%s: %s %s", name, contentType, body)
		}
	}
	if _, body := told.bodyFor(http.Header{"Accept": {"application/json"}, "User-Agent": {"curl/8"}}); object(body).(map[string]any)["command"] != told.Command {
		t.Errorf("who asks for JSON hears %s", body)
	}
	if contentType, body := told.bodyFor(http.Header{"Accept": {"*/*"}}); !strings.HasPrefix(contentType, "text/plain") || body != told.textForUser()+"\n" {
		t.Errorf("others hear %s %s", contentType, body)
	}
}
