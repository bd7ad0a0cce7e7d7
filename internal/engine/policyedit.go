package engine

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// EditPolicy changes the rules of a sandbox or, without one, the user's, and
// puts them into force in every running sandbox they hold for. Rules that have
// ended go on this occasion.
//
// All are told at once. A keeper that does not answer is named, and finds the rules by itself
// before it lets anything new through; so does one that was not told because we were killed.
//
// Nothing is written if the result is no policy or, of a sandbox, cannot be put into
// force for what stands in the user's file. Once it is written it counts for whatever
// starts; the error then tells who could not be told, and has no class.
func (e *Engine) EditPolicy(ctx context.Context, sb *spec.Sandbox, edit func(*policy.File) error) error {
	lock, err := e.Store.PolicyLock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := e.rewritePolicy(sb, edit); err != nil {
		if sb != nil && !e.exists(sb) {
			return errRemoved(sb)
		}
		return err
	}
	if sb != nil {
		return e.announce(ctx, []*spec.Sandbox{sb})
	}
	list, err := e.Store.List()
	if err != nil {
		return &spec.Error{Op: "put the rules into force, which are written", Err: err}
	}
	return e.announce(ctx, list)
}

// rewritePolicy changes the file.
func (e *Engine) rewritePolicy(sb *spec.Sandbox, edit func(*policy.File) error) error {
	path := e.Store.Policy()
	if sb != nil {
		path = e.Store.Sandbox(sb.ID).Policy()
	}
	f, err := keeper.ReadPolicy(path)
	if err != nil {
		return err
	}
	if err := edit(f); err != nil {
		return err
	}
	if _, err := f.Prune(time.Now()); err != nil {
		return err
	}
	if err := e.fits(sb, f); err != nil {
		return err
	}
	return store.WriteFile(path, f.Encode())
}

// fits refuses rules of a sandbox that cannot be put into force, for the user's file is no
// policy: written all the same they would count some day, when nobody expects it, and until
// then be shown as if they did. What the project says is no reason to refuse any.
func (e *Engine) fits(sb *spec.Sandbox, own *policy.File) error {
	if sb == nil {
		return nil // it stands alone, and every change of it was checked
	}
	user, err := keeper.ReadPolicy(e.Store.Policy())
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

// announce tells sandboxes that run which rules hold now: all that can be told.
func (e *Engine) announce(ctx context.Context, list []*spec.Sandbox) error {
	errs := make([]error, len(list))
	var telling sync.WaitGroup
	for i, sb := range list {
		telling.Go(func() { errs[i] = e.tellRules(ctx, sb) })
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
	// Of the class of the cause a script would believe that nothing was done.
	return &spec.Error{
		Class: context.Cause(ctx),
		Op:    "the rules are written, but who runs could not be told all of them",
		Err:   errors.New(strings.Join(untold, "; ")),
		Hint:  cmp.Or(hint, "mend that; they count from then on, or from the next start"),
	}
}

// tellRules tells one sandbox, if it runs. One that is removed meanwhile needs none, and
// one that does not run reads them when it starts.
//
// What the project says lies where somebody inside may write: a file that cannot be read
// must not keep the user's rules from those who run, who keep what it said before, nor
// make it an error to change any.
func (e *Engine) tellRules(ctx context.Context, sb *spec.Sandbox) error {
	d := e.Store.Sandbox(sb.ID)
	if sb.Broken != "" && !askable(d) {
		return nil // maybe because nobody can look into it, for its lock either
	}
	ask, unread := e.rulesAsked(sb)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := e.tellPatiently(ctx, sb, helloTimeout, func(ctx context.Context, c *unixconn.Conn) error {
		if ask.Op == "" {
			c.Close()
			return unread
		}
		if err := orderSoon(ctx, sb, c, tellTime, ask); err != nil || unread == nil {
			return err
		}
		e.say("the rules hold in sandbox %s, and of its project's those from before: %v; it does not start again until that is mended", sb.Name, unread)
		return nil
	}, func() error {
		if unread != nil && sb.Broken == "" {
			e.say("sandbox %s does not start until this is mended: %v", sb.Name, unread)
		}
		return nil
	})
	if _, gone := os.Lstat(d.Dir); gone != nil {
		return nil
	}
	return err
}

// rulesAsked is how a keeper is asked to take the rules that hold now. What of them cannot be
// read is told beside it: if that is not only what the project says, there is nothing to ask.
func (e *Engine) rulesAsked(sb *spec.Sandbox) (ask wire.Ask, unread error) {
	if sb.Broken != "" { // nobody knows where its project is
		unread = errors.New(sb.Broken)
	} else if ask.Policy, unread = e.layersFor(sb); unread == nil {
		ask.Op = wire.OpPolicy
		return ask, nil
	}
	own, err := encodeLayers(e.ownLayers(sb))
	if err != nil {
		return wire.Ask{}, err
	}
	return wire.Ask{Op: wire.OpOwnPolicy, Policy: own}, unread
}
