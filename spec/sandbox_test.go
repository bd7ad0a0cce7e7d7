package spec

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"
)

func TestPrimary(t *testing.T) {
	at := []Mount{{Source: "/real", Target: "/seen"}, {Source: "/b", Target: "/b"}}
	tests := []struct {
		sb   Sandbox
		want string
	}{
		{Sandbox{}, ""},
		{Sandbox{Workspaces: at}, "/seen"},
		{Sandbox{Workspaces: at, Workdir: "/else"}, "/else"},
		{Sandbox{Workdir: "/else"}, "/else"},
	}
	for _, tt := range tests {
		if got := tt.sb.Primary(); got != tt.want {
			t.Errorf("Primary() = %q, want %q", got, tt.want)
		}
	}
}

func TestMountString(t *testing.T) {
	tests := []struct {
		m    Mount
		want string
	}{
		{Mount{Source: "/a", Target: "/a"}, "/a"},
		{Mount{Source: "/a", Target: "/a", ReadOnly: true}, "/a:ro"},
		{Mount{Source: "/a", Target: "/b"}, "/a:/b"},
		{Mount{Source: "/a", Target: "/b", ReadOnly: true}, "/a:/b:ro"},
	}
	for _, tt := range tests {
		if got := tt.m.String(); got != tt.want {
			t.Errorf("%+v reads %q, want %q", tt.m, got, tt.want)
		}
	}
}

func TestSandboxRoundTrip(t *testing.T) {
	sb := Sandbox{
		Version: Version, ID: "0123456789ab", Name: "shell-app", Agent: "shell", Driver: "gvisor", Template: "host",
		CreatedAt:  time.Date(2026, 11, 20, 1, 2, 3, 456789, time.UTC),
		Workspaces: []Mount{{Source: "/srv/app", Target: "/srv/app"}},
		Volumes:    []Mount{{Source: "/d", Target: "/data", ReadOnly: true}},
		Env:        []string{"A=<&>", "B=\u2028", "C="}, User: "0:0", Workdir: "/w",
		Limits: Limits{CPUs: 1.5, Memory: 1 << 40, Pids: 7, Disk: 9}, IdleTimeout: Duration(90 * time.Second), Remove: true,
	}
	b, err := json.Marshal(sb)
	if err != nil {
		t.Fatal(err)
	}
	var got Sandbox
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, sb) {
		t.Errorf("wrote %+v, read %+v", sb, got)
	}
}

func TestDuration(t *testing.T) {
	for _, text := range []string{`"30m0s"`, `"0s"`, `"1h0m0.5s"`, `"-2s"`} {
		var d Duration
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		if b, err := json.Marshal(d); err != nil || string(b) != text {
			t.Errorf("%s became %s, %v", text, b, err)
		}
	}
	for _, text := range []string{`"30"`, `"soon"`, `""`, `30`} {
		d := Duration(7)
		if err := json.Unmarshal([]byte(text), &d); err == nil {
			t.Errorf("%s was read as %v", text, time.Duration(d))
		}
		if d != 7 {
			t.Errorf("%s changed the value although it was refused", text)
		}
	}
}

func TestWorkspaceMode(t *testing.T) {
	for mode, ok := range map[string]bool{"": true, "live": true, "review": true, "clone": true, "Clone": false, "Review": false, " ": false} {
		if err := CheckWorkspaceMode(mode); (err == nil) != ok || err != nil && (!errors.Is(err, ErrUsage) || Hint(err) == "") {
			t.Errorf("%q: %v", mode, err)
		}
	}
	rw, ro, vol := Mount{Source: "/a", Target: "/a"}, Mount{Source: "/b", Target: "/b", ReadOnly: true}, Mount{Source: "/c", Target: "/c"}
	sb := &Sandbox{Workspaces: []Mount{rw, ro}, Volumes: []Mount{vol}}
	if sb.Mode() != WorkspaceLive || sb.Reviews(rw) {
		t.Error("without a mode it is live")
	}
	sb.WorkspaceMode = WorkspaceReview
	if !sb.Reviews(rw) || sb.Reviews(ro) || sb.Reviews(vol) {
		t.Error("reviewed are workspaces that can be written to, and no others")
	}
}

func TestLimitsWithDefaults(t *testing.T) {
	def := Limits{CPUs: 2, Memory: 3, Pids: 4, Disk: 5}
	for _, c := range []struct{ asked, want Limits }{
		{Limits{}, def},
		{Limits{CPUs: 0.5}, Limits{CPUs: 0.5, Memory: 3, Pids: 4, Disk: 5}},
		{Limits{Memory: 9, Pids: 8, Disk: 7}, Limits{CPUs: 2, Memory: 9, Pids: 8, Disk: 7}},
	} {
		if got := c.asked.WithDefaults(def); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.asked, got, c.want)
		}
	}
}
