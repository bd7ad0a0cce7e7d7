package netrules

import (
	"errors"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func port(t *testing.T, text string) spec.Port {
	t.Helper()
	p, err := spec.ParsePort(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sandboxWith(t *testing.T, ports ...string) *spec.Sandbox {
	t.Helper()
	sb := &spec.Sandbox{Name: "box"}
	for _, p := range ports {
		if err := Publish(sb, port(t, p)); err != nil {
			t.Fatal(err)
		}
	}
	return sb
}

func listed(sb *spec.Sandbox) string {
	var list []string
	for _, p := range sb.Ports {
		list = append(list, p.String())
	}
	return strings.Join(list, " ")
}

func TestPublish(t *testing.T) {
	tests := []struct {
		have, add, want string // want is empty if the two ports exclude each other
	}{
		{"3000", "3000", "3000"},
		{"8080:3000", "8080:3000", "8080:3000"},
		{"8080:3000", "8081:3000", "8080:3000 8081:3000"},
		{"8080:3000", "3000", "8080:3000 3000"},
		{"8080:3000", "192.0.2.1:8080:3000", "8080:3000 192.0.2.1:8080:3000"},
		{"127.0.0.1:8080:3000", "[::1]:8080:3001", "127.0.0.1:8080:3000 [::1]:8080:3001"},
		{"0.0.0.0:8080:3000", "[::1]:8080:3000", "0.0.0.0:8080:3000 [::1]:8080:3000"},
		{"8080:3000", "8080:3001", ""},
		{"8080:3000", "127.0.0.1:8080:3000", ""},
		{"[::1]:8080:3000", "8080:3000", ""},
		{"8080:3000", "0.0.0.0:8080:3000", ""},
		{"[::]:8080:3000", "[2001:db8::1]:8080:3000", ""},
	}
	for _, tt := range tests {
		sb := sandboxWith(t, tt.have)
		err := Publish(sb, port(t, tt.add))
		if tt.want == "" {
			if !errors.Is(err, spec.ErrUsage) || listed(sb) != tt.have {
				t.Errorf("%s and %s: %q, %v", tt.have, tt.add, listed(sb), err)
			}
			continue
		}
		if err != nil || listed(sb) != tt.want {
			t.Errorf("%s and %s: %q, %v", tt.have, tt.add, listed(sb), err)
		}
	}
	sb := &spec.Sandbox{}
	for n := range uint16(maxPorts) {
		if err := errors.Join(Publish(sb, spec.Port{Port: n + 1}), OpenHostPort(sb, n+1)); err != nil {
			t.Fatal(err)
		}
	}
	if Publish(sb, spec.Port{Port: 7000}) == nil || OpenHostPort(sb, 7000) == nil {
		t.Error("there is no bound")
	}
}

func TestUnpublish(t *testing.T) {
	all := []string{"3000", "8080:3000", "127.0.0.1:9090:4000"}
	at := []spec.Port{
		port(t, "127.0.0.1:41234:3000"), port(t, "[::1]:41234:3000"),
		port(t, "127.0.0.1:8080:3000"), port(t, "[::1]:8080:3000"), port(t, "127.0.0.1:9090:4000"),
	}
	for text, want := range map[string]string{
		"3000":                 "127.0.0.1:9090:4000",
		"8080:3000":            "3000 127.0.0.1:9090:4000",
		"41234:3000":           "8080:3000 127.0.0.1:9090:4000",
		"127.0.0.1:41234:3000": "8080:3000 127.0.0.1:9090:4000",
		"4000":                 "3000 8080:3000",
		"5000":                 "", "8081:3000": "", "192.0.2.1:8080:3000": "",
	} {
		sb := sandboxWith(t, all...)
		err := Unpublish(sb, port(t, text), at)
		if want == "" {
			if !errors.Is(err, spec.ErrNotFound) || listed(sb) != strings.Join(all, " ") {
				t.Errorf("%s: %q, %v", text, listed(sb), err)
			}
			continue
		}
		if err != nil || listed(sb) != want {
			t.Errorf("%s leaves %q, %v", text, listed(sb), err)
		}
	}
}

func TestHostPorts(t *testing.T) {
	sb := &spec.Sandbox{}
	if err := errors.Join(OpenHostPort(sb, 80), OpenHostPort(sb, 80), OpenHostPort(sb, 81), CloseHostPort(sb, 80)); err != nil {
		t.Fatal(err)
	}
	if len(sb.HostPorts) != 1 || sb.HostPorts[0] != 81 {
		t.Errorf("open are %v", sb.HostPorts)
	}
	if err := CloseHostPort(sb, 80); !errors.Is(err, spec.ErrNotFound) {
		t.Error(err)
	}
}
