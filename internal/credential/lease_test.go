package credential

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// placed returns the files that do moved to their places in a directory, in order.
func placed(t *testing.T, dir string, do func()) (names []string) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must(t, err)
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO)
	must(t, err)
	do()
	buf := make([]byte, 64<<10)
	n, err := unix.Read(fd, buf)
	if errors.Is(err, unix.EAGAIN) {
		return nil
	}
	must(t, err)
	for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		names = append(names, strings.TrimRight(string(b[unix.SizeofInotifyEvent:size]), "\x00"))
		b = b[size:]
	}
	return names
}

// TestLentMark checks the order of writes: a process that is killed while it lends leaves no mark
// without a lease, and one that is killed while it revokes leaves a mark.
func TestLentMark(t *testing.T) {
	e := newDesk(t)
	must(t, e.SetSecret(here, stored("anthropic", canary)))
	sb := wish(t.TempDir())
	must(t, e.Create(here, sb))
	d := e.Store.Sandbox(sb.ID)
	lend := func() {
		_, err := e.Lend(here, sb, "anthropic", vault.Terms{})
		must(t, err)
	}
	revoke := func() {
		_, err := e.Revoke(here, sb, func(*spec.Lease) bool { return true })
		must(t, err)
	}
	leases, mark := filepath.Base(d.Leases()), filepath.Base(d.Lent())
	if got := placed(t, d.Dir, lend); !slices.Equal(got, []string{leases, mark}) {
		t.Errorf("lending writes %q", got)
	}
	must(t, os.Remove(d.Lent())) // as a process that is killed between the two writes leaves it
	if e.NeverLent(sb) {
		t.Error("its lease counts as none")
	}
	if got := placed(t, d.Dir, revoke); !slices.Equal(got, []string{mark, leases}) {
		t.Errorf("revoking writes %q", got)
	}
	if e.NeverLent(sb) {
		t.Error("what was taken back counts as never lent")
	}

	// A lease that ran out goes with the next that is lent, and is remembered as well.
	list := []spec.Lease{{ID: "lease-0", Secret: "anthropic", Until: time.Unix(1, 0)}}
	must(t, writeLeases(d.Leases(), list))
	must(t, os.Remove(d.Lent()))
	token := spec.Lease{ID: "lease-1", Secret: "lent-npm", Tool: "npm"}
	if got := placed(t, d.Dir, func() {
		left, err := addLease(d, list, token, time.Now())
		if err != nil || len(left) != 1 {
			t.Errorf("%+v, %v", left, err)
		}
	}); !slices.Equal(got, []string{mark, leases}) {
		t.Errorf("lending writes %q", got)
	}
}

// TestTermsFirst checks that terms that no value can satisfy are refused before the source is read.
func TestTermsFirst(t *testing.T) {
	e := newDesk(t)
	ran := filepath.Join(t.TempDir(), "ran")
	for _, n := range []NewSecret{
		{Name: "openai", Source: vault.Source{Kind: vault.SourceEnvironment, Variable: "NOBODY_SETS_THIS"}},
		{Name: "asked", Source: vault.Source{Kind: vault.SourceCommand, Command: []string{"sh", "-c", "touch " + ran + "; echo 0123456789"}}},
	} {
		must(t, e.SetSecret(here, n))
	}
	must(t, e.SetSecret(here, stored("other", canary)))
	sb := wish(t.TempDir())
	must(t, e.Create(here, sb))
	_, err := e.Lend(here, sb, "other", vault.Terms{Hosts: []string{"api.example.com"}, Env: []string{"TAKEN"}})
	must(t, err)
	ok := []string{"api.example.com"}
	for what, c := range map[string]struct {
		terms vault.Terms
		want  error
	}{
		"a range":            {vault.Terms{Hosts: []string{"10.0.0.0/8"}}, spec.ErrUsage},
		"an end in the past": {vault.Terms{Hosts: ok, For: -time.Hour}, spec.ErrUsage},
		"a variable there":   {vault.Terms{Hosts: ok, Env: []string{"TAKEN"}}, spec.ErrConflict},
	} {
		for _, secret := range []string{"openai", "asked"} {
			if l, err := e.Lend(here, sb, secret, c.terms); !errors.Is(err, c.want) {
				t.Errorf("%s of %s: %+v, %v", what, secret, l, err)
			}
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command ran for what cannot be lent")
	}
	if _, err := e.Lend(here, sb, "openai", vault.Terms{}); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("one whose variable is not set: %v", err)
	}
}
