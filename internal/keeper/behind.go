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

// A command that changes rules or leases writes them, and then tells each keeper. One that did
// not answer, because it was stopped or the command was killed, was not told. So a keeper
// compares the files with what it has in force: before it lets anything new through, and
// every catchUpEvery for what is under way.
const (
	catchUpEvery = time.Second
	catchUpPause = 50 * time.Millisecond // between two looks; it passes while a keeper is stopped, too
)

// behind is what the keeper has seen of the files.
type behind struct {
	mu            sync.Mutex
	looked        time.Time
	rules, leases string // stamps of the files that are in force
}

// stampOf tells one version of a file from every other.
func stampOf(path string) string {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err.Error()
	}
	return fmt.Sprint(st.Dev, st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec)
}

// catchUp puts rules and leases into force that were written and not told. What cannot be
// read stays as it is, and is read again at the next look.
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

// rereadRules puts the user's rules and the sandbox's own into force, unless they are. What
// the project says is read by commands alone: the keeper opens nothing that the inside made.
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

// rereadLeases takes back what is not lent any more. The values of new leases come from
// commands alone.
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

// stayCaughtUp looks again and again, for what is under way.
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
