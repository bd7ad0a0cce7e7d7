package learn

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy/gitrepo"
	"github.com/bothy-dev/bothy/spec"
)

func TestGitLearned(t *testing.T) {
	p := policyOf(t, `{allow: [{host: "git.example.com:22", git: [acme/app]}]}`)
	l := New(p, noon)
	for _, r := range []spec.NetworkRecord{
		{Method: gitrepo.Push, Path: "/acme/app"}, {Method: gitrepo.Fetch, Path: "/acme/app"}, {Method: gitrepo.Fetch, Path: "../x"}, {Method: "exec id"}, {Method: "tcpip-forward"}, {Method: gitrepo.Fetch, Path: "~me/x"},
	} {
		r.Time, r.Event, r.Verdict, r.Protocol = noon, spec.NetworkRequest, spec.VerdictDeny, spec.ProtocolSSH
		r.Name, r.Port, r.Addr = "git.example.com", 22, netip.MustParseAddr("93.184.216.34")
		l.See(&r)
	}
	var got []string
	for _, x := range l.Proposals() {
		got = append(got, x.Command("box"))
	}
	if want := []string{"bothy policy allow git.example.com:22 --git acme/app --push --sandbox box", "bothy policy allow git.example.com:22 --git '~me/x' --sandbox box"}; !slices.Equal(got, want) && !slices.Equal(got, []string{want[1], want[0]}) {
		t.Errorf("%q", got)
	}
}

// TestGitUserLearned checks that a proposal for a git command names its user.
func TestGitUserLearned(t *testing.T) {
	p := policyOf(t, `{allow: [{host: "git.example.com:22", git: ["team/*"]}]}`)
	l := New(p, noon)
	l.See(&spec.NetworkRecord{Time: noon, Event: spec.NetworkRequest, Verdict: spec.VerdictDeny, Protocol: spec.ProtocolSSH, Name: "git.example.com", Port: 22, Method: gitrepo.Fetch, Path: "/x", User: "me"})
	if list := l.Proposals(); len(list) != 1 || list[0].Command("") != "bothy policy allow git.example.com:22 --git x --user me" {
		t.Errorf("%+v", list)
	}
}
