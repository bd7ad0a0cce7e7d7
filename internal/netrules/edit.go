package netrules

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/rulefiles"

	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Edit changes the rules of a sandbox or, without one, the user's, and puts them into force
// in every running sandbox that they apply to. It also removes rules that have ended.
//
// All keepers are told at once. The error names a keeper that does not answer. Such a keeper finds
// the rules by itself before it lets anything new through; so does a keeper that was not told
// because this process was killed.
//
// Edit writes nothing if the result is not a valid policy. It also writes nothing for a
// sandbox if the user's file keeps the rules from taking effect. Once written, the rules apply to
// every later start. The error then names the sandboxes that could not be told, and has no class.
func (r Rules) Edit(ctx context.Context, sb *spec.Sandbox, edit func(*policyfile.File) error) error {
	lock, err := r.Keepers.Store.PolicyLock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := r.rewritePolicy(sb, edit); err != nil {
		if sb != nil && !r.Keepers.Store.Has(sb.ID) {
			return keeperclient.ErrRemoved(sb)
		}
		return err
	}
	if sb != nil {
		return r.announce(ctx, []*spec.Sandbox{sb})
	}
	list, err := r.Keepers.Store.List()
	if err != nil {
		return &spec.Error{Op: "put the rules into force, which are written", Err: err}
	}
	return r.announce(ctx, list)
}

// rewritePolicy changes the policy file.
func (r Rules) rewritePolicy(sb *spec.Sandbox, edit func(*policyfile.File) error) error {
	path := r.Keepers.Store.Policy()
	if sb != nil {
		path = r.Keepers.Store.Sandbox(sb.ID).Policy()
	}
	f, err := rulefiles.Read(path)
	if err != nil {
		return err
	}
	if err := edit(f); err != nil {
		return withSandbox(sb, err)
	}
	if _, err := f.Prune(time.Now()); err != nil {
		return err
	}
	if err := r.checkEffect(sb, f); err != nil {
		return err
	}
	return store.WriteFile(path, f.Encode())
}

// withSandbox names the sandbox in the commands of a hint about its rules. The functions that edit a file do
// not know it.
func withSandbox(sb *spec.Sandbox, err error) error {
	hint := spec.Hint(err)
	if sb == nil || hint == "" || strings.Contains(hint, "--sandbox") {
		return err
	}
	for _, command := range []string{"bothy policy ls", "bothy policy rm"} {
		hint = strings.ReplaceAll(hint, command, command+" --sandbox "+sb.Name)
	}
	return &spec.Error{Err: &hintless{err}, Hint: hint}
}

// hintless is an error whose own hint another one replaces.
type hintless struct{ err error }

func (h *hintless) Error() string        { return h.err.Error() }
func (h *hintless) Is(target error) bool { return errors.Is(h.err, target) }

// checkEffect refuses rules of a sandbox that cannot take effect, because the user's file is invalid. If
// they were written, they would take effect some day by surprise, and until then be shown as if
// they did. checkEffect never refuses rules because of the project's file.
func (r Rules) checkEffect(sb *spec.Sandbox, own *policyfile.File) error {
	if sb == nil {
		return nil // the user's file depends on no other, and every change of it was checked
	}
	user, err := rulefiles.Read(r.Keepers.Store.Policy())
	if err == nil {
		_, err = policy.Compile(0, policy.Input{Layer: policy.LayerUser, Block: user.Block}, policy.Input{Layer: policy.LayerSandbox, Block: own.Block})
	}
	if err != nil {
		return &spec.Error{
			Op:  "change the rules of sandbox " + sb.Name + ": nothing is changed",
			Err: err, Hint: cmp.Or(spec.Hint(err), "mend that file first"),
		}
	}
	return nil
}

// announce tells all running sandboxes that can be told which rules apply now.
func (r Rules) announce(ctx context.Context, list []*spec.Sandbox) error {
	errs := make([]error, len(list))
	var telling sync.WaitGroup
	for i, sb := range list {
		telling.Go(func() { errs[i] = r.tellRules(ctx, sb) })
	}
	telling.Wait()
	var untold []string
	hint := ""
	for i, err := range errs {
		if err != nil {
			untold = append(untold, "sandbox "+list[i].Name+": "+err.Error())
			hint = cmp.Or(hint, spec.Hint(err))
		}
	}
	if untold == nil {
		return nil
	}
	// With the class of the cause a script would believe that nothing was done.
	return &spec.Error{
		Class: context.Cause(ctx),
		Op:    "the rules are written, but who runs could not be told all of them",
		Err:   errors.New(strings.Join(untold, "; ")),
		Hint:  cmp.Or(hint, "mend that; they count from then on, or from the next start"),
	}
}

// tellRules tells one sandbox, if it runs. A sandbox that is removed meanwhile needs no rules, and
// one that does not run reads them when it starts.
//
// A program inside may write the project's file. If the file cannot be read, the user's rules must
// still reach running sandboxes, which keep the project's earlier rules. Nor may the file turn a
// change of rules into an error.
func (r Rules) tellRules(ctx context.Context, sb *spec.Sandbox) error {
	d := r.Keepers.Store.Sandbox(sb.ID)
	if sb.Broken != "" && !keeperclient.IsAskable(d) {
		return nil // the directory may be unreadable, and with it the lock
	}
	ask, unread := r.rulesAsked(sb)
	err := r.Keepers.TellOnce(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		if ask.Op == "" {
			c.Close()
			return unread
		}
		if err := keeperclient.OrderSoon(ctx, sb, c, keeperclient.TellTime, ask); err != nil || unread == nil {
			return err
		}
		r.Keepers.Say("the rules hold in sandbox %s, and of its project's those from before: %v; it does not start again until that is mended", sb.Name, unread)
		return nil
	}, func() error {
		if unread != nil && sb.Broken == "" {
			r.Keepers.Say("sandbox %s does not start until this is mended: %v", sb.Name, unread)
		}
		return nil
	})
	if _, gone := os.Lstat(d.Dir); gone != nil {
		return nil
	}
	return err
}

// rulesAsked returns the request with which a keeper takes the present rules. It also returns why
// some of them cannot be read. If more than the project's file is unreadable, the request is empty.
func (r Rules) rulesAsked(sb *spec.Sandbox) (ask wire.Ask, unread error) {
	if sb.Broken != "" { // it is not known where its project is
		unread = errors.New(sb.Broken)
	} else if ask.Policy, unread = r.Encoded(sb); unread == nil {
		ask.Op = wire.OpPolicy
		return ask, nil
	}
	own, err := encodeLayers(r.ownLayers(sb))
	if err != nil {
		return wire.Ask{}, err
	}
	return wire.Ask{Op: wire.OpOwnPolicy, Policy: own}, unread
}
