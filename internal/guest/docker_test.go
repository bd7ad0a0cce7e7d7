package guest

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/trust"
)

func TestDockerWish(t *testing.T) {
	for wish, want := range map[string]docker{
		DockerOn(1000, 100): {on: true, uid: 1000, gid: 100},
		DockerOff(0, 0):     {},
	} {
		d := docker{}
		if err := d.parseWish(wish); err != nil || d != want {
			t.Errorf("%q: %+v, %v", wish, d, err)
		}
	}
	for _, wish := range []string{"on", "on:1", "on:x:1", "on:1:-1", "on:1:1:1"} {
		if err := (&docker{}).parseWish(wish); err == nil {
			t.Errorf("%q is a wish", wish)
		}
	}
}

// TestDockerRefuses checks that a program gets the reason in Docker's format without a daemon. A
// program that sends no request, or too long a one, gets no answer, and does not delay others.
func TestDockerRefuses(t *testing.T) {
	ask := func(request string) string {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		client := os.NewFile(uintptr(pair[0]), "client")
		defer client.Close()
		go func() { _, _ = io.WriteString(client, request) }()
		refuseOne(pair[1], "there is none")
		answer, _ := io.ReadAll(client)
		return string(answer)
	}
	head, body, _ := strings.Cut(ask("GET /v1.41/containers/json HTTP/1.1\r\nHost: docker\r\n\r\n"), "\r\n\r\n")
	if !strings.HasPrefix(head, "HTTP/1.1 503 ") || body != `{"message":"there is none"}` {
		t.Errorf("%q, %q", head, body)
	}
	if head, body, _ := strings.Cut(ask("HEAD /_ping HTTP/1.1\r\n\r\n"), "\r\n\r\n"); !strings.HasPrefix(head, "HTTP/1.1 503 ") || body != "" {
		t.Errorf("%q, %q", head, body)
	}
	for _, request := range []string{"", "GET / HTTP/1.1\r\n", strings.Repeat("x", maxDockerHead+1)} {
		if answer := ask(request); answer != "" {
			t.Errorf("%.20q: %q", request, answer)
		}
	}
}

// TestDockerFlags checks that settings of the sandbox's own daemon.json are not passed as flags, too.
func TestDockerFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "daemon.json")
	given, err := givenSettings(file)
	if err != nil || given != nil {
		t.Fatal(given, err)
	}
	if got := dockerFlags(given); !slices.Contains(got, "--storage-driver=overlay2") || !slices.Contains(got, "--iptables=false") {
		t.Error(got)
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"storage-driver": "vfs", "insecure-registries": ["a.example"]}`)
	if given, err = givenSettings(file); err != nil {
		t.Fatal(err)
	}
	if got := dockerFlags(given); slices.Contains(got, "--storage-driver=overlay2") || len(got) != len(dockerSettings)-1 {
		t.Error(got)
	}
	write(`{`)
	if _, err := givenSettings(file); err == nil {
		t.Error("half a file is read")
	}
}

func TestDescribedBy(t *testing.T) {
	for call, want := range map[string]string{
		"--root /r --log /l create --bundle /b --pid-file /p id": "/b/config.json",
		"run -b /b id":          "/b/config.json",
		"create --bundle=/b id": "/b/config.json",
		"create id":             "config.json",
		"--root /r exec --process /p/process.json --detach id": "/p/process.json",
		"exec id sh":             "",
		"--root /r start create": "",
		"--version":              "",
		"delete --force id":      "",
		"--log create.json --log-format json state --bundle /x 123": "",
	} {
		if got, _ := describedBy(strings.Fields(call)); got != want {
			t.Errorf("%q: %q", call, got)
		}
	}
}

func TestTrusting(t *testing.T) {
	type container struct {
		Process struct {
			Env  []string `json:"env"`
			Args []string `json:"args"`
		} `json:"process"`
		Mounts []struct {
			Destination, Type, Source string
			Options                   []string
		} `json:"mounts"`
		Linux json.RawMessage `json:"linux"`
	}
	const given = `{"process":{"env":["A=b","SSL_CERT_FILE=/mine"],"args":["x"]},"mounts":[{"destination":"/dev","type":"tmpfs","source":"tmpfs"}],"linux":{"big":9007199254740993}}`
	text, err := trusting([]byte(given), true)
	if err != nil {
		t.Fatal(err)
	}
	var c container
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	env := c.Process.Env
	if !slices.Contains(env, "SSL_CERT_FILE=/mine") || !slices.Contains(env, "NODE_EXTRA_CA_CERTS="+containerTrust+"/extra.pem") || len(env) != len(trust.Environment())+1 {
		t.Errorf("%q", env)
	}
	if string(c.Linux) != `{"big":9007199254740993}` || c.Process.Args[0] != "x" {
		t.Errorf("%s", text)
	}
	last := c.Mounts[len(c.Mounts)-1]
	if len(c.Mounts) != 2 || last.Source != trust.Dir || last.Destination != containerTrust || !slices.Contains(last.Options, "ro") {
		t.Errorf("%+v", c.Mounts)
	}
	for _, other := range []string{`{"process":{},"mounts":[]}`, `{"process":{},"mounts":[{"destination":"/dev","type":"bind"}]}`, `{"mounts":[{"destination":"/dev","type":"tmpfs"}]}`} {
		if text, err := trusting([]byte(other), true); err != nil || strings.Contains(string(text), containerTrust) {
			t.Errorf("%s: %s, %v", other, text, err)
		}
	}
	if text, err := trusting([]byte(`{"args":["sh"]}`), false); err != nil || !strings.Contains(string(text), "SSL_CERT_FILE="+containerTrust) {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := trusting([]byte(`{`), true); err == nil {
		t.Error("half a description is read")
	}
}

// TestWithin checks that a container asks for no capability that its sandbox lacks.
func TestWithin(t *testing.T) {
	if got := namedCapabilities(1<<0 | 1<<13 | 1<<40); !slices.Equal(got, []string{"CAP_CHOWN", "CAP_NET_RAW", "CAP_CHECKPOINT_RESTORE"}) {
		t.Error(got)
	}
	process := map[string]json.RawMessage{"capabilities": json.RawMessage(`{"bounding":["CAP_CHOWN","CAP_SYS_MODULE"],"ambient":["CAP_SYS_BOOT"]}`)}
	if err := dropCapabilities(process, []string{"CAP_CHOWN", "CAP_KILL"}); err != nil {
		t.Fatal(err)
	}
	if got := string(process["capabilities"]); got != `{"ambient":[],"bounding":["CAP_CHOWN"]}` {
		t.Error(got)
	}
	none := map[string]json.RawMessage{}
	if err := dropCapabilities(none, nil); err != nil || len(none) != 0 {
		t.Error(none, err)
	}
}

func TestIptables(t *testing.T) {
	const done, refused = 0, 1
	for rule, want := range map[string]int{
		"--version":                      done,
		"--wait -t nat -N DOCKER_OUTPUT": done,
		"-t filter -P FORWARD DROP":      refused,
		"-A INPUT -d 127.0.0.11 -j DROP": refused,

		"-t nat -A POSTROUTING -s 172.17.0.0/16 -j MASQUERADE":                                           refused,
		"-t nat -C OUTPUT -d 127.0.0.11 -j DOCKER_OUTPUT":                                                refused,
		"-t nat -I DOCKER_POSTROUTING -s 127.0.0.11 -p udp --sport 40000 -j SNAT --to-source :53":        done,
		"-t nat -I DOCKER_OUTPUT -d 127.0.0.11 -p udp --dport 53 -j DNAT --to-destination 198.18.0.1:53": refused,
	} {
		if got := Iptables(strings.Fields(rule)); got != want {
			t.Errorf("%q: %d", rule, got)
		}
	}
}

// TestNamesAt checks that questions are carried to the daemon alone.
func TestNamesAt(t *testing.T) {
	for _, to := range []string{"127.0.0.11:0", "127.0.0.11", "127.0.0.1:53", "127.0.0.11:70000", ":53"} {
		if _, err := namesAt(to); err == nil {
			t.Errorf("%q is taken", to)
		}
	}
	if at, err := namesAt("127.0.0.11:40001"); err != nil || at.Port != 40001 {
		t.Error(at, err)
	}
}

func TestPassEnds(t *testing.T) {
	var a, b [2]int
	for _, p := range []*[2]int{&a, &b} {
		pair, err := syscall.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		*p = pair
	}
	asks, hears := os.NewFile(uintptr(a[0]), "asks"), os.NewFile(uintptr(b[1]), "hears")
	defer asks.Close()
	defer hears.Close()
	go passBytes(a[1], b[0])
	if _, err := io.WriteString(asks, "question"); err != nil {
		t.Fatal(err)
	}
	asks.Close()
	if text, err := io.ReadAll(hears); err != nil || string(text) != "question" {
		t.Errorf("%q, %v", text, err)
	}
}
