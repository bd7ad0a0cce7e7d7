package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/bothy-dev/bothy/internal/apitoken"
	"github.com/bothy-dev/bothy/internal/document"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/server/listen"
	"github.com/bothy-dev/bothy/internal/store"
)

// api is a running server with a state directory of its own.
type api struct {
	t      *testing.T
	store  *store.Store
	socket string // path
	tcp    string // HOST:PORT
	home   string
	unix   *http.Client
	stop   func()
}

// startAPI starts a server on its unix socket and at a TCP address.
func startAPI(t *testing.T) *api {
	t.Helper()
	return startPatient(t, patience{})
}

// startPatient is startAPI for a server that waits less for its clients.
func startPatient(t *testing.T, p patience) *api {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	a := &api{t: t, home: filepath.Join(top, "home")}
	must(t, os.MkdirAll(filepath.Join(a.home, "proj"), 0o755))
	t.Setenv("HOME", a.home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(a.home, ".config"))
	a.store, err = store.Open(filepath.Join(top, "state"))
	must(t, err)
	own, err := listen.Default(a.store)
	must(t, err)
	tcp, err := listen.TCP("127.0.0.1:0", listen.Options{})
	must(t, err)
	a.socket, a.tcp = a.store.APISocket(), tcp.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	s := &Server{Store: a.store, patience: p, Claims: runstate.ClaimIDs, Log: func(text string) { t.Error(text) }}
	done.Go(func() {
		if err := s.Serve(ctx, []*listen.Socket{own, tcp}); err != nil {
			t.Error(err)
		}
	})
	a.unix = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", a.socket)
	}}}
	a.stop = sync.OnceFunc(func() { cancel(); done.Wait(); a.unix.CloseIdleConnections() })
	t.Cleanup(a.stop)
	return a
}

// newToken makes a token.
func (a *api) newToken(w apitoken.Wish) string {
	a.t.Helper()
	text, _, err := apitoken.Open(a.store).Create(w)
	must(a.t, err)
	return text
}

// answered is an answer of the API.
type answered struct {
	status int
	header http.Header
	body   []byte
}

// fieldAt returns a field of the document by its path, such as error.code.
func (r answered) fieldAt(path string) any {
	var v any
	_ = json.Unmarshal(r.body, &v)
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// request makes a request with a document, which may be nil.
func request(t *testing.T, method, url string, body any) *http.Request {
	t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		must(t, err)
		r = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, r)
	must(t, err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req
}

// doUnix sends a request over the unix socket, and compares the answer with the OpenAPI document.
func (a *api) doUnix(method, path string, body any, edit ...func(*http.Request)) answered {
	a.t.Helper()
	return a.sendRequest(a.unix, request(a.t, method, "http://localhost"+path, body), edit)
}

// overTCP sends a request to the TCP address.
func (a *api) overTCP(method, path string, body any, edit ...func(*http.Request)) answered {
	a.t.Helper()
	return a.sendRequest(http.DefaultClient, request(a.t, method, "http://"+a.tcp+path, body), edit)
}

func (a *api) sendRequest(client *http.Client, req *http.Request, edit []func(*http.Request)) answered {
	a.t.Helper()
	for _, e := range edit {
		e(req)
	}
	resp, err := client.Do(req)
	must(a.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(a.t, err)
	r := answered{resp.StatusCode, resp.Header, body}
	if err := describedAnswer(a.t, req, r); err != nil {
		a.t.Errorf("%s %s: %d %s: %v", req.Method, req.URL.Path, r.status, body, err)
	}
	return r
}

// withBearer adds a token to a request.
func withBearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// describedAnswer compares an answer with the schemas of its route.
func describedAnswer(t *testing.T, req *http.Request, r answered) error {
	route := routeOf(req.Method, req.URL.Path)
	kind, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	switch {
	case r.status >= 400:
		return validate(t, reflect.TypeFor[document.Error](), r.body)
	case route == nil:
		return fmt.Errorf("an unknown path succeeded")
	case !slices.Contains(route.statuses(), r.status):
		return fmt.Errorf("the status is not described")
	case route.Stream != "" && kind == route.Stream:
		return nil
	case route.Answer == nil:
		if len(r.body) > 0 {
			return fmt.Errorf("the answer is not described")
		}
		return nil
	}
	return validate(t, reflect.TypeOf(route.Answer), r.body)
}

// routeOf finds the route of a path, by a reading of the patterns that is not ServeMux's.
func routeOf(method, path string) *Route {
	for _, r := range Routes() {
		want, got := strings.Split(r.Pattern, "/"), strings.Split(path, "/")
		fits := len(want) == len(got) && r.Method == method
		for i := range want {
			if !fits {
				break
			}
			if name, verb, _ := strings.Cut(want[i], ":"); strings.HasPrefix(name, "{") {
				_, gotVerb, _ := strings.Cut(got[i], ":")
				fits = verb == gotVerb
			} else {
				fits = want[i] == got[i]
			}
		}
		if fits {
			return &r
		}
	}
	return nil
}

// validate compares a document with the schema of a type, which allows no other fields.
func validate(t *testing.T, of reflect.Type, body []byte) error {
	t.Helper()
	s := newSchemas(t)
	root := s.refTo(of)
	doc := map[string]any{"$ref": strings.Replace(root["$ref"].(string), "#/components/schemas/", "#/$defs/", 1), "$defs": s.named}
	text, err := json.Marshal(doc)
	must(t, err)
	text = bytes.ReplaceAll(text, []byte("#/components/schemas/"), []byte("#/$defs/"))
	var schema jsonschema.Schema
	must(t, json.Unmarshal(text, &schema))
	resolved, err := schema.Resolve(nil)
	must(t, err)
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	return resolved.Validate(v)
}
