package oauthfile

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var how = spec.AgentLogin{
	File: ".tool/login.json", Directory: "TOOL_DIR", Service: "claude",
	Access: "/oauth/access", Refresh: "/oauth/refresh", Expires: "/oauth/ends", Keep: []string{"/oauth/scopes", "/plan", "/absent"},
	Again: "tool login",
}

// signedIn returns a home with a login in it.
func signedIn(t testing.TB, how spec.AgentLogin, text string) File {
	t.Helper()
	f := Find(how, t.TempDir(), func(string) string { return "" })
	must(t, os.MkdirAll(filepath.Dir(f.Path), 0o700))
	must(t, os.WriteFile(f.Path, []byte(text), 0o600))
	return f
}

const typical = `{"oauth":{"access":"access-1-REAL","refresh":"refresh-1-REAL","ends":1700000000000,"scopes":["a","b"],"odd":1e400},"plan":"max","other":{"key":"other-REAL","n":12345678901234567890}}`

func jwt(claims string) string {
	return "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".signature-REAL"
}

func TestFind(t *testing.T) {
	env := map[string]string{"TOOL_DIR": "/elsewhere"}
	for want, getenv := range map[string]func(string) string{
		"/home/me/.tool/login.json": func(string) string { return "" },
		"/elsewhere/login.json":     func(name string) string { return env[name] },
	} {
		if got := Find(how, "/home/me", getenv); got.Path != want {
			t.Errorf("%s, not %s", got.Path, want)
		}
	}
}

// TestRead checks that other members of the file stay, and that the sandbox's copy has none of them.
func TestRead(t *testing.T) {
	f := signedIn(t, how, typical)
	d, err := f.Read()
	must(t, err)
	if d.Access != "access-1-REAL" || d.Refresh != "refresh-1-REAL" || !d.Expires.Equal(time.UnixMilli(1700000000000)) {
		t.Errorf("%+v", d)
	}
	text, err := d.Inside("stand-in-1", "stand-in-2")
	must(t, err)
	if want := `{"oauth":{"access":"stand-in-1","ends":4102444800000,"refresh":"stand-in-2","scopes":["a","b"]},"plan":"max"}` + "\n"; string(text) != want {
		t.Errorf("inside is %s", text)
	}
	if _, ok := d.StandIn(); ok {
		t.Error("an opaque token got a JWT")
	}
}

func TestJWT(t *testing.T) {
	how := how
	how.Expires, how.Keep, how.Identity, how.Renewed = "", nil, "/id", "/renewed"
	how.Claims = []string{"/https:~1~1tool.example~1auth/plan"}
	token := jwt(`{"exp":1700000000,"email":"me@example.com","https://tool.example/auth":{"plan":"pro","user":"user-REAL"}}`)
	f := signedIn(t, how, fmt.Sprintf("{\n  \"oauth\":{\"access\":%q,\"refresh\":\"refresh-1-REAL\"},\"id\":%q}", token, token))
	d, err := f.Read()
	must(t, err)
	if !d.Expires.Equal(time.Unix(1700000000, 0)) {
		t.Errorf("it ends %v", d.Expires)
	}
	access, ok := d.StandIn()
	again, _ := d.StandIn()
	if !ok || access == again || len(access) < 64 {
		t.Errorf("%q, %q", access, again)
	}
	text, err := d.Inside(access, "stand-in-2")
	must(t, err)
	var inside struct {
		OAuth   struct{ Access string }
		ID      string
		Renewed time.Time
	}
	must(t, json.Unmarshal(text, &inside))
	for _, token := range []string{inside.OAuth.Access, inside.ID} {
		body, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
		must(t, err)
		if want := `{"exp":4102444800,"https://tool.example/auth":{"plan":"pro"}}`; string(body) != want {
			t.Errorf("claims %s", body)
		}
	}
	if inside.Renewed.Year() != 2100 || strings.Contains(string(text), "REAL") || !strings.HasPrefix(string(text), "{\n  ") {
		t.Errorf("inside is %s", text)
	}
}

// TestRefuses checks that a file is refused if it is not a login of the user alone, and
// that the error does not quote it.
func TestRefuses(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other")
	must(t, os.WriteFile(other, []byte(typical), 0o600))
	for name, c := range map[string]struct {
		text   string
		change func(t *testing.T, path string)
		want   string
		none   bool
	}{
		"missing":       {change: func(t *testing.T, p string) { must(t, os.Remove(p)) }, want: "no login exists", none: true},
		"key only":      {text: `{"key":"sk-REAL","oauth":null}`, want: "no login exists", none: true},
		"link":          {change: func(t *testing.T, p string) { must(t, os.Remove(p)); must(t, os.Symlink(other, p)) }, want: "symbolic link"},
		"dangling link": {change: func(t *testing.T, p string) { must(t, os.Remove(p)); must(t, os.Symlink(other+"x", p)) }, want: "symbolic link"},
		"directory":     {change: func(t *testing.T, p string) { must(t, os.Remove(p)); must(t, os.Mkdir(p, 0o700)) }, want: "not a regular file"},
		"readable":      {change: func(t *testing.T, p string) { must(t, os.Chmod(p, 0o644)) }, want: "its mode is 0644"},
		"writable":      {change: func(t *testing.T, p string) { must(t, os.Chmod(p, 0o620)) }, want: "its mode is 0620"},
		"empty":         {text: " ", want: "not a JSON object"},
		"garbage":       {text: "\x00REAL", want: "not a JSON object"},
		"cut off":       {text: typical[:60], want: "not a JSON object"},
		"list":          {text: "[]", want: "not a JSON object"},
		"null":          {text: "null", want: "not a JSON object"},
		"two":           {text: typical + typical, want: "after its JSON object"},
		"no refresh":    {text: `{"oauth":{"access":"access-REAL"}}`, want: "no token at /oauth/refresh"},
		"number":        {text: `{"oauth":{"access":123456789,"refresh":"refresh-REAL"}}`, want: "its value at /oauth/access is not a token"},
		"line break":    {text: `{"oauth":{"access":"access-REAL\r\nx: y","refresh":"refresh-REAL"}}`, want: "its value at /oauth/access is not a token"},
		"short":         {text: `{"oauth":{"access":"REAL","refresh":"refresh-REAL"}}`, want: "its value at /oauth/access is not a token"},
		"huge":          {text: `{"x":"` + strings.Repeat("REAL", MaxFile/4) + `"}`, want: "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.text == "" {
				c.text = typical
			}
			f := signedIn(t, how, c.text)
			if c.change != nil {
				c.change(t, f.Path)
			}
			_, err := f.Read()
			_, held := f.Hold(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "REAL") || errors.Is(err, ErrNone) != c.none {
				t.Errorf("%v", err)
			}
			if held == nil || held.Error() != err.Error() {
				t.Errorf("to hold it: %v", held)
			}
		})
	}
}

func TestPut(t *testing.T) {
	f := signedIn(t, how, typical)
	must(t, os.Chmod(f.Path, 0o400))
	h, err := f.Hold(t.Context())
	must(t, err)
	must(t, h.Ready())
	now := time.UnixMilli(1800000000000)
	must(t, h.Put(Grant{Access: "access-2-REAL", Refresh: "refresh-2-REAL", Lifetime: time.Hour}, now))
	h.Release()
	text, err := os.ReadFile(f.Path)
	must(t, err)
	want := strings.NewReplacer("access-1", "access-2", "refresh-1", "refresh-2", "1700000000000", "1800003600000").Replace(typical)
	var a, b any
	for v, text := range map[*any]string{&a: string(text), &b: want} {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		must(t, d.Decode(v))
	}
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%v, not %v", a, b)
	}
	if info, _ := os.Stat(f.Path); info.Mode().Perm() != 0o400 {
		t.Errorf("mode %v", info.Mode())
	}
	only(t, f)
}

// only checks that no other file is left beside the login.
func only(t *testing.T, f File) {
	t.Helper()
	for _, dir := range []string{filepath.Dir(f.Path), filepath.Dir(filepath.Dir(f.Path))} {
		if list, _ := os.ReadDir(dir); len(list) != 1 {
			t.Errorf("%s has %v", dir, list)
		}
	}
}

// TestPutAfterOthers checks that a new login on the host, made while Bothy asks for a token, stays.
func TestPutAfterOthers(t *testing.T) {
	f := signedIn(t, how, typical)
	h, err := f.Hold(t.Context())
	must(t, err)
	defer h.Release()
	must(t, os.WriteFile(f.Path+".new", []byte(strings.ReplaceAll(typical, "-1-", "-9-")), 0o600))
	must(t, os.Rename(f.Path+".new", f.Path))
	must(t, h.Put(Grant{Access: "access-2-REAL", Refresh: "refresh-2-REAL"}, time.Now()))
	d, err := f.Read()
	must(t, err)
	if d.Access != "access-9-REAL" || h.Access != "access-9-REAL" {
		t.Errorf("%s, and in hand %s", d.Access, h.Access)
	}
}

func TestPutRefusesNoToken(t *testing.T) {
	f := signedIn(t, how, typical)
	h, err := f.Hold(t.Context())
	must(t, err)
	defer h.Release()
	for _, g := range []Grant{{}, {Access: "access\n-2-REAL"}, {Access: "access-2-REAL", Refresh: "x"}} {
		if err := h.Put(g, time.Now()); err == nil {
			t.Errorf("%v was written", g)
		}
	}
	if text, _ := os.ReadFile(f.Path); string(text) != typical {
		t.Errorf("%s", text)
	}
}

// TestPutDropsIdentity checks that a malformed identity token is dropped, and that the others are kept.
func TestPutDropsIdentity(t *testing.T) {
	how := how
	how.Identity = "/id"
	groups := jwt(fmt.Sprintf(`{"groups":%q}`, strings.Repeat("group ", 10<<10)))
	for name, c := range map[string]struct{ given, want string }{
		"large":     {groups, groups},
		"endless":   {strings.Repeat("x", maxIdentity+1), "id-1"},
		"not ASCII": {"id-é", "id-1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := signedIn(t, how, strings.Replace(typical, "{", `{"id":"id-1",`, 1))
			h, err := f.Hold(t.Context())
			must(t, err)
			defer h.Release()
			must(t, h.Put(Grant{Access: "access-2-REAL", Refresh: "refresh-2-REAL", Identity: c.given}, time.Now()))
			d, err := f.Read()
			must(t, err)
			if d.Access != "access-2-REAL" || d.Refresh != "refresh-2-REAL" || valueAt(d.all, "/id") != c.want {
				t.Errorf("%+v", d)
			}
		})
	}
}

var broken = map[string]func(*testing.T, string){
	"cut off":  func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) },
	"readable": func(t *testing.T, path string) { must(t, os.Chmod(path, 0o644)) },
}

// TestPutWhileWritten checks that Bothy waits for a program that writes its file in place.
func TestPutWhileWritten(t *testing.T) {
	for name, change := range broken {
		t.Run(name, func(t *testing.T) {
			f := signedIn(t, how, typical)
			h, err := f.Hold(t.Context())
			must(t, err)
			defer h.Release()
			change(t, f.Path)
			var wg sync.WaitGroup
			wg.Go(func() {
				time.Sleep(4 * poll)
				if err := errors.Join(os.WriteFile(f.Path, []byte(typical), 0), os.Chmod(f.Path, 0o600)); err != nil {
					t.Error(err)
				}
			})
			err = h.Put(Grant{Access: "access-2-REAL", Refresh: "refresh-2-REAL"}, time.Now())
			wg.Wait()
			must(t, err)
			if d, err := f.Read(); err != nil || d.Access != "access-2-REAL" {
				t.Errorf("%+v, %v", d, err)
			}
			only(t, f)
		})
	}
}

// TestPutLeavesTokens checks that if the file cannot be replaced, the new tokens are kept
// beside it for the next lock holder.
func TestPutLeavesTokens(t *testing.T) {
	f := signedIn(t, how, typical)
	h, err := f.Hold(t.Context())
	must(t, err)
	must(t, os.Chmod(f.Path, 0o644))
	err = h.Put(Grant{Access: "access-2-REAL", Refresh: "refresh-2-REAL"}, time.Now())
	h.Release()
	if err == nil || !strings.Contains(err.Error(), "mode is 0644") || !strings.Contains(err.Error(), "the new tokens are in "+f.written()) {
		t.Errorf("%v", err)
	}
	if info, err := os.Stat(f.written()); err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	must(t, os.Chmod(f.Path, 0o600))
	h, err = f.Hold(t.Context())
	must(t, err)
	defer h.Release()
	if h.Access != "access-2-REAL" || h.Refresh != "refresh-2-REAL" {
		t.Errorf("%+v", h.Document)
	}
	only(t, f)
}

// TestPutAfterLogout checks that after a logout while Bothy asks for a token, no tokens are left.
func TestPutAfterLogout(t *testing.T) {
	f := signedIn(t, how, typical)
	h, err := f.Hold(t.Context())
	must(t, err)
	defer h.Release()
	must(t, os.Remove(f.Path))
	if err := h.Put(Grant{Access: "access-2-REAL"}, time.Now()); !errors.Is(err, ErrNone) {
		t.Errorf("%v", err)
	}
	if list, _ := os.ReadDir(filepath.Dir(f.Path)); len(list) != 0 {
		t.Errorf("%v", list)
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write anywhere")
	}
	f := signedIn(t, how, typical)
	dir := filepath.Dir(f.Path)
	must(t, os.Chmod(dir, 0o500))
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	h, err := f.Hold(t.Context())
	must(t, err)
	defer h.Release()
	if err := h.Ready(); err == nil {
		t.Error("it is ready")
	}
}

// TestHoldExcludes checks that each holder sees the writes of the one before, whichever
// file carried the lock.
func TestHoldExcludes(t *testing.T) {
	for _, lock := range []bool{false, true} {
		how := how
		how.Lock = lock
		f := signedIn(t, how, typical)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 5 {
					h, err := f.Hold(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					var n int
					_, _ = fmt.Sscanf(h.Access, "access-%d-REAL", &n)
					if err := h.Put(Grant{Access: fmt.Sprintf("access-%d-REAL", n+1), Refresh: fmt.Sprintf("refresh-%d-REAL", n+1)}, time.Now()); err != nil {
						t.Error(err)
					}
					h.Release()
				}
			})
		}
		wg.Wait()
		if d, err := f.Read(); err != nil || d.Access != "access-41-REAL" {
			t.Errorf("%v, %v", d, err)
		}
		only(t, f)
	}
}

// TestProgramsLock checks that Bothy waits for a program's own lock, unless that is stale.
func TestProgramsLock(t *testing.T) {
	how := how
	how.Lock = true
	f := signedIn(t, how, typical)
	lock := filepath.Dir(f.Path) + ".lock"
	must(t, os.Mkdir(lock, 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), 5*poll)
	defer cancel()
	if _, err := f.Hold(ctx); err == nil || !strings.Contains(err.Error(), "another process renews the login") {
		t.Errorf("%v", err)
	}
	old := time.Now().Add(-2 * lockStale)
	must(t, os.Chtimes(lock, old, old))
	h, err := f.Hold(t.Context())
	must(t, err)
	h.Release()
	only(t, f)
}

// TestRecover checks that a complete file that was not renamed is recovered. A truncated
// file, or one older than the program's, is not.
func TestRecover(t *testing.T) {
	newer := strings.ReplaceAll(typical, "-1-", "-2-")
	for name, c := range map[string]struct {
		left string
		age  time.Duration
		want string
	}{
		"whole":   {newer, 0, "access-2-REAL"},
		"part":    {newer[:50], 0, "access-1-REAL"},
		"no more": {newer, time.Hour, "access-1-REAL"},
	} {
		t.Run(name, func(t *testing.T) {
			f := signedIn(t, how, typical)
			must(t, os.WriteFile(f.written(), []byte(c.left), 0o600))
			at := time.Now().Add(time.Second - c.age)
			must(t, os.Chtimes(f.written(), at, at))
			h, err := f.Hold(t.Context())
			must(t, err)
			defer h.Release()
			if h.Access != c.want {
				t.Errorf("%s", h.Access)
			}
			only(t, f)
		})
	}
}

// renewForEver is a process that renews a login until it is killed. It reports when the
// server has forgotten a token and when the next is on the disk.
func renewForEver(path string) {
	f := File{Path: path, How: how}
	if os.Getenv(sealedVar) != "" {
		f.Inside, f.Seal = true, seal
	}
	for n := 2; ; n++ {
		h, err := f.Hold(context.Background())
		if err != nil {
			panic(err)
		}
		err = h.Put(Grant{Access: fmt.Sprintf("access-%d-REAL", n), Refresh: fmt.Sprintf("refresh-%d-REAL", n)}, time.Now())
		if err != nil {
			panic(err)
		}
		h.Release()
		fmt.Println(n)
	}
}

const renewVar, sealedVar = "TEST_RENEW", "TEST_SEALED"

func TestMain(m *testing.M) {
	if path := os.Getenv(renewVar); path != "" {
		renewForEver(path)
	}
	os.Exit(m.Run())
}

// TestSurvivesKill checks that a token that was reported written survives kill -9, and so
// does the file. A login that was made inside never appears in plain text.
func TestSurvivesKill(t *testing.T) {
	for i := range 20 {
		f, env := signedIn(t, how, typical), ""
		if i%2 == 1 {
			f, env = sealedIn(t), sealedVar+"=1"
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), renewVar+"="+f.Path, env)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewReader(out)
		var n int
		for range 4 {
			_, err := fmt.Fscan(lines, &n)
			must(t, err)
		}
		time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		rest, _ := io.ReadAll(lines)
		_ = cmd.Wait()
		if f.Inside {
			unwritten(t, f)
		}
		if more := strings.Fields(string(rest)); len(more) > 0 {
			_, _ = fmt.Sscan(more[len(more)-1], &n)
		}
		h, err := f.Hold(t.Context())
		must(t, err)
		var have int
		_, err = fmt.Sscanf(h.Access, "access-%d-REAL", &have)
		must(t, err)
		h.Release()
		if have < n || have > n+1 {
			t.Errorf("it has token %d, and %d was reported", have, n)
		}
		only(t, f)
	}
}

// TestAgain checks that the hint for a new login depends on where the login was made.
func TestAgain(t *testing.T) {
	f := File{How: spec.AgentLogin{Again: "tool login"}}
	if again := f.Again(); again != "log in again on the host: tool login" {
		t.Error(again)
	}
	f.Inside, f.Secret = true, "tool-login@box"
	if again := f.Again(); !strings.HasPrefix(again, "bothy secret revoke tool-login@box, on the host, then log in again in the sandbox") {
		t.Error(again)
	}
}
