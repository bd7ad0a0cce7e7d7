package pull

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/spec"
)

func TestCheckForeign(t *testing.T) {
	for _, registry := range []string{
		"127.0.0.1:9", "127.0.0.1", "localhost", "localhost:5000", "localhost.:1", "x.localhost", "[::1]:9", "[::1]", "[::ffff:127.0.0.1]:9",
		"10.1.2.3", "192.168.0.1:443", "172.16.0.1", "169.254.169.254", "[fe80::1]:1", "[fd00::1]", "0.0.0.0:9", "[::]:9", "100.64.0.1",
	} {
		if err := checkForeign(registry); !errors.Is(err, spec.ErrDenied) || !strings.Contains(spec.Hint(err), "docker login "+registry) {
			t.Errorf("%s: %v", registry, err)
		}
	}
	for _, registry := range []string{"docker.io", "ghcr.io", "registry.example:5000", "1.1.1.1:443", "[2606:4700::1111]", "localhost.example"} {
		if err := checkForeign(registry); err != nil {
			t.Error(err)
		}
	}
}

func TestJudgeForeign(t *testing.T) {
	for address, ok := range map[string]bool{
		"1.1.1.1:443": true, "10.0.0.1:443": true, "[fd00::1]:443": true,
		"127.0.0.1:443": false, "[::1]:443": false, "[::ffff:127.0.0.1]:443": false, "169.254.169.254:80": false, "[fd00:ec2::254]:80": false, "100.100.100.200:443": false, "nowhere": false,
	} {
		if err := judgeForeign("registry.example", address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestForeign checks that a project's file cannot make Bothy contact a registry on this
// machine, unless the user is logged in there.
func TestForeign(t *testing.T) {
	b, r := newBench(t), imagetest.NewRegistry(t)
	r.Publish("tools", "v1", small(t, "x"))
	r.PublishFeature(t, "f", "1", imagetest.Layer(t, imagetest.File("./"+image.FeatureFile, `{"id": "f"}`), imagetest.Program("./install.sh", "#!/bin/sh\n")))
	orders := []image.Order{{Pull: r.Host + "/tools:v1", Foreign: true}, {Feature: r.Host + "/f:1", Foreign: true}}
	for _, o := range orders {
		if _, err := b.do(t, o); !errors.Is(err, spec.ErrDenied) || !strings.Contains(err.Error(), "because a file says so") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if asked := r.Asked(""); len(asked) != 0 {
		t.Errorf("it was asked %v", asked)
	}
	config := filepath.Join(os.Getenv("HOME"), ".docker", "config.json")
	must(t, os.Mkdir(filepath.Dir(config), 0o700))
	must(t, os.WriteFile(config, fmt.Appendf(nil, `{"auths":{%q:{"username":"me","password":"secret"}}}`, r.Host), 0o600))
	for _, o := range orders {
		_, err := b.do(t, o)
		must(t, err)
	}
}

// TestForeignName checks that the address that a name resolves to is checked when it is dialled: here,
// the name of this machine.
func TestForeignName(t *testing.T) {
	r := imagetest.NewRegistry(t)
	_, port, _ := strings.Cut(r.Host, ":")
	for _, foreign := range []bool{false, true} {
		g := newGuard("localhost:"+port, nil)
		g.foreign = foreign
		defer g.CloseIdleConnections()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost:"+port+"/v2/", http.NoBody)
		must(t, err)
		resp, err := g.RoundTrip(q)
		if err == nil {
			must(t, resp.Body.Close())
		}
		if errors.Is(err, spec.ErrDenied) != foreign || !foreign && err != nil {
			t.Errorf("foreign %v: %v", foreign, err)
		}
	}
}
