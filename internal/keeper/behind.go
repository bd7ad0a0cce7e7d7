package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

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

// behind holds the versions of the files that the keeper has seen.
type behind struct {
	mu            sync.Mutex
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

// catchUp puts rules and leases into force that were written without telling the keeper. An
// unreadable file changes nothing, and the next check reads it again.
func (k *Keeper) catchUp() {
	k.behind.mu.Lock()
	defer k.behind.mu.Unlock()
	if time.Since(k.behind.looked) < catchUpPause {
		return
	}
	k.behind.looked = time.Now()
	if now := stampOf(k.launch.Rules) + stampOf(k.dir.Policy()); now != k.behind.rules {
		if err := k.rereadRules(); err != nil {
			k.log.Warn("read the rules again", "err", err)
		} else {
			k.behind.rules = now
		}
	}
	if now := stampOf(k.dir.Leases()); now != k.behind.leases {
		if err := k.rereadLeases(); err != nil {
			k.log.Warn("read the leases again", "err", err)
		} else {
			k.behind.leases = now
		}
	}
}

// rereadRules puts changed rules of the user and of the sandbox into force. Only commands read
// the project's rules: the keeper opens no file that the inside made.
func (k *Keeper) rereadRules() error {
	inputs, err := OwnLayers(k.launch.Rules, k.dir.Policy())
	if err != nil {
		return err
	}
	layers, err := json.Marshal(inputs)
	if err != nil {
		return err
	}
	k.mu.Lock()
	own := slices.DeleteFunc(slices.Clone(k.rules), func(in policy.Input) bool { return in.Layer == policy.LayerProject })
	k.mu.Unlock()
	if known, err := json.Marshal(own); err == nil && bytes.Equal(known, layers) {
		return nil
	}
	return k.setPolicy(layers, true)
}

// rereadLeases takes back leases that were revoked. Only commands bring the values of new
// leases.
func (k *Keeper) rereadLeases() error {
	list, err := vault.ReadLeases(k.dir.Leases())
	if err != nil {
		return err
	}
	keep := make([]string, len(list))
	for i := range list {
		keep[i] = list[i].ID
	}
	k.mu.Lock()
	revoked := slices.ContainsFunc(k.loans, func(l wire.Loan) bool { return !l.Taken && !slices.Contains(keep, l.ID) }) ||
		slices.ContainsFunc(k.unlent, func(u spec.Unlent) bool { return !slices.Contains(keep, u.Lease) })
	k.mu.Unlock()
	if !revoked {
		return nil
	}
	err = k.changeLoans(wire.LoanChange{Keep: keep})
	k.noteUnlent()
	return err
}

// stayCaughtUp checks periodically, for the traffic under way.
func (k *Keeper) stayCaughtUp(ctx context.Context) {
	tick := time.NewTicker(catchUpEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.catchUp()
		}
	}
}
