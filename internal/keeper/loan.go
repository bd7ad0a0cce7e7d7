package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// lend gives the gateway the secrets of the launch, before the wall stands. A
// gateway that will not have them has none: the sandbox starts all the same,
// and who started it hears why.
func (k *Keeper) lend() {
	k.unlent = k.launch.Unlent
	if err := k.setLoans(k.launch.Loans); err != nil {
		k.refused = err.Error()
		for _, l := range k.launch.Loans {
			if len(l.Value) > 0 {
				k.unlent = append(k.unlent, spec.Unlent{Lease: l.ID, Secret: l.Secret, Reason: err.Error(), Hint: spec.Hint(err)})
			}
		}
	}
	k.launch.Loans, k.launch.Unlent = nil, nil
}

// notLent are the leases without effect.
func (k *Keeper) notLent() []spec.Unlent {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.unlent)
}

// setLoans puts secrets into force. When the gateway refuses them, those before stay in
// force: not for a moment shall nothing be masked.
func (k *Keeper) setLoans(loans []wire.Loan) error {
	if len(loans) == 0 && len(k.loans) == 0 {
		return nil
	}
	err := k.gateway.SetLoans(loans)
	if err != nil {
		k.log.Warn("lend secrets", "err", err)
		return err
	}
	k.loans = loans
	return nil
}

// noteUnlent keeps the status true to them.
func (k *Keeper) noteUnlent() {
	list := k.notLent()
	k.status.update(func(st *spec.Status) { st.Unlent = list })
}

// answerLoans changes what is lent.
func (k *Keeper) answerLoans(c *unixconn.Conn, change wire.LoanChange) error {
	before := len(k.notLent())
	err := k.changeLoans(change)
	if len(k.notLent()) != before {
		k.noteUnlent()
	}
	if err != nil {
		return err
	}
	return c.SendJSON(wire.Reply, struct{}{})
}

// changeLoans takes away what is not to be kept, whatever the gateway thinks of
// what is new. If it does not even take that, nothing is lent any more.
func (k *Keeper) changeLoans(change wire.LoanChange) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var old, put, former []wire.Loan
	for _, l := range change.Put {
		if slices.Contains(change.Keep, l.ID) {
			put = append(put, l)
		}
	}
	for _, l := range k.loans {
		if i := slices.IndexFunc(put, func(n wire.Loan) bool { return n.ID == l.ID }); i >= 0 {
			put[i].Masked = maskFormer(put[i], l)
			l.Taken = true
			former = append(former, l)
			continue
		}
		if !slices.Contains(change.Keep, l.ID) {
			l.Taken = true
		}
		old = append(old, l)
	}
	k.unlent = slices.DeleteFunc(k.unlent, func(u spec.Unlent) bool { return !slices.Contains(change.Keep, u.Lease) })
	old = latest(old)
	err := k.setLoans(slices.Concat(old, put))
	if err == nil {
		k.unlent = slices.DeleteFunc(k.unlent, func(u spec.Unlent) bool {
			return slices.ContainsFunc(put, func(n wire.Loan) bool { return n.ID == u.Lease })
		})
		return nil
	}
	if len(put) > 0 {
		left := k.setLoans(slices.Concat(old, former))
		if left == nil {
			return err
		}
		err = errors.Join(err, left)
	}
	return errors.Join(err, k.setLoans(nil))
}

// maxMasked bounds the values of one loan that are masked and not lent.
const maxMasked = 16

// maskFormer returns the values to mask for a loan that replaces a former one. They include the
// values that were lent before: a server may still tell them.
func maskFormer(l, former wire.Loan) []wire.Value {
	masked := slices.Clone(l.Masked)
	for _, v := range slices.Concat([]wire.Value{former.Value}, former.Masked) {
		same := func(w wire.Value) bool { return bytes.Equal(v, w) }
		if len(v) > 0 && !same(l.Value) && !slices.ContainsFunc(masked, same) && len(masked) < maxMasked {
			masked = append(masked, v)
		}
	}
	return masked
}

// maxTaken bounds the loans that were taken back. They serve to tell a
// placeholder that is of no use any more from other text, and to keep a value
// that a server remembers from coming in.
const maxTaken = 64

// latest leaves the last of those that were taken back.
func latest(loans []wire.Loan) []wire.Loan {
	taken := 0
	for _, l := range loans {
		if l.Taken {
			taken++
		}
	}
	return slices.DeleteFunc(loans, func(l wire.Loan) bool {
		if !l.Taken || taken <= maxTaken {
			return false
		}
		taken--
		return true
	})
}

// lent are the leases that count now.
func (k *Keeper) lent(now time.Time) (leases []spec.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.loans {
		if l.Live(now) && !l.Taken && len(l.Value) > 0 {
			leases = append(leases, l.Lease)
		}
	}
	return leases
}

// placeholders are the variables by which programs inside hear of leases.
func placeholders(leases []spec.Lease) []string {
	var env, names []string
	words := map[string][]string{}
	for _, l := range leases {
		for _, name := range l.Env {
			env = append(env, name+"="+l.Placeholder)
		}
		for _, s := range l.Settings {
			if s.Kind == spec.SettingVariable {
				names = append(names, s.Name)
				if text := l.Filled(s); !slices.Contains(words[s.Name], text) { // two leases may say the same
					words[s.Name] = append(words[s.Name], text)
				}
			}
		}
	}
	for _, name := range names { // more than once is the same
		env = append(env, name+"="+strings.Join(words[name], " "))
	}
	return env
}

// agentSocket is where programs inside find the SSH agent that is lent.
type agentSocket struct {
	at netip.AddrPort // of the gateway

	mu    sync.Mutex
	open  bool
	tried time.Time // in vain
}

// agentPause is how long init is not asked again for a socket that it did not make:
// whoever is root inside can stop it, and each program would wait.
const agentPause = 30 * time.Second

// openAgent sees to it that the socket is there before a program that is told of it.
// One that init cannot make is missed by who wants to log in, and by nobody else.
func (k *Keeper) openAgent(ctx context.Context, lent []spec.Lease) {
	if !slices.ContainsFunc(lent, func(l spec.Lease) bool { return l.Place.IsAgent() }) {
		return
	}
	k.agent.mu.Lock()
	defer k.agent.mu.Unlock()
	if k.agent.open || time.Since(k.agent.tried) < agentPause {
		return
	}
	_, err := k.link.ask(ctx, wire.InitAsk{Ask: wire.AskListen, Listen: wire.Listen{Path: wire.AgentSocket, To: k.agent.at}})
	if err != nil {
		k.log.Warn("have a socket for the SSH agent", "err", err)
		k.agent.tried = time.Now()
		return
	}
	k.agent.open = true
}

// gitConfig is what git inside is told: in variables, of which git wants to know how
// many there are.
func gitConfig(leases []spec.Lease, anybodys bool) []string {
	var env []string
	n := 0
	tell := func(key, value string) {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
		n++
	}
	// Files have other inode numbers inside: without this, git reads every file again
	// whenever it changes sides.
	tell("core.checkStat", "minimal")
	// A worktree that is not shown inside is not gone.
	tell("gc.worktreePruneExpire", "never")
	if anybodys { // root of an image works on what belongs to the caller
		tell("safe.directory", "*")
	}
	for _, l := range leases {
		for _, s := range l.Settings {
			if s.Kind == spec.SettingGit {
				tell(s.Name, l.Filled(s))
			}
		}
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))
}
