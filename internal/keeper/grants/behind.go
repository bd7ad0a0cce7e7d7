package grants

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/rulefiles"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// A command that changes rules or leases writes the files, then tells each keeper. A keeper
// may miss that because it was stopped, or because the command was killed. So a keeper
// compares the files with the state in force: before it admits anything new, and every
// catchUpEvery for the traffic under way.
const (
	catchUpEvery = time.Second
	catchUpPause = 50 * time.Millisecond // between two checks; it also passes while a keeper is stopped
)

// seenFiles holds the versions of the files that the keeper has seen.
type seenFiles struct {
	mu            sync.Mutex // guards all below; held while files are read and put into force
	looked        time.Time
	rules, leases string // stamps of the files that are in force
}

// stampOf returns a stamp that differs for each version of a file.
func stampOf(path string) string {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err.Error()
	}
	return fmt.Sprint(st.Dev, st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec)
}

// CatchUp puts rules and leases into force that were written without telling the keeper. An
// unreadable file changes nothing, and the next check reads it again.
func (g *Grants) CatchUp() {
	g.behind.mu.Lock()
	defer g.behind.mu.Unlock()
	if time.Since(g.behind.looked) < catchUpPause {
		return
	}
	g.behind.looked = time.Now()
	if now := stampOf(g.Launch.Rules) + stampOf(g.Dir.Policy()); now != g.behind.rules {
		if err := g.rereadRules(); err != nil {
			g.Log.Warn("read the rules again", "err", err)
		} else {
			g.behind.rules = now
		}
	}
	if now := stampOf(g.Dir.Leases()); now != g.behind.leases {
		if err := g.rereadLeases(); err != nil {
			g.Log.Warn("read the leases again", "err", err)
		} else {
			g.behind.leases = now
		}
	}
}

// rereadRules puts changed rules of the user and of the sandbox into force. Only commands read
// the project's rules: the keeper opens no file that the inside made.
func (g *Grants) rereadRules() error {
	inputs, err := rulefiles.OwnLayers(g.Launch.Rules, g.Dir.Policy())
	if err != nil {
		return err
	}
	layers, err := json.Marshal(inputs)
	if err != nil {
		return err
	}
	g.mu.Lock()
	own := slices.DeleteFunc(slices.Clone(g.rules), func(in policy.Input) bool { return in.Layer == policy.LayerProject })
	g.mu.Unlock()
	if known, err := json.Marshal(own); err == nil && bytes.Equal(known, layers) {
		return nil
	}
	return g.SetPolicy(layers, true)
}

// rereadLeases takes back leases that were revoked. Only commands bring the values of new
// leases.
func (g *Grants) rereadLeases() error {
	list, err := vault.ReadLeases(g.Dir.Leases())
	if err != nil {
		return err
	}
	keep := make([]string, len(list))
	for i := range list {
		keep[i] = list[i].ID
	}
	g.mu.Lock()
	revoked := slices.ContainsFunc(g.loans, func(l wire.Loan) bool { return !l.Taken && !slices.Contains(keep, l.ID) }) ||
		slices.ContainsFunc(g.unlent, func(u spec.Unlent) bool { return !slices.Contains(keep, u.Lease) })
	g.mu.Unlock()
	if !revoked {
		return nil
	}
	err = g.ChangeLoans(wire.LoanChange{Keep: keep})
	g.OnUnlent(g.NotLent())
	return err
}

// StayCaughtUp checks periodically, for the traffic under way.
func (g *Grants) StayCaughtUp(ctx context.Context) {
	tick := time.NewTicker(catchUpEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.CatchUp()
		}
	}
}
