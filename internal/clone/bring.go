package clone

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// wantedTips returns the commits of the branches that are taken.
func (f *fetch) wantedTips() []string {
	set := map[string]bool{}
	for _, b := range f.Branches {
		if b.Result != Refused {
			set[b.New] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// maxHaves bounds the commits that the sandbox is told not to send.
const maxHaves = 256

// knownCommits returns commits that the user's repository may have whole.
func (f *fetch) knownCommits() ([]string, error) {
	list := append([]string{f.rec.Commit}, slices.Sorted(maps.Values(f.have))...)
	branches, err := f.refs.listRefs(heads)
	if err != nil {
		return nil, err
	}
	list = append(list, slices.Sorted(maps.Values(branches))...)
	list = slices.DeleteFunc(list, func(h string) bool { return len(h) != len(f.rec.Commit) })
	return list[:min(len(list), maxHaves)], nil
}

// bringBranches gets the commits of all branches, with everything they need, into the inbox or finds them
// in the user's repository. It refuses each branch that does not come whole, and returns an error
// if none comes.
func (f *fetch) bringBranches(ctx context.Context) error {
	if err := f.refuseMissing(ctx); err != nil {
		return err
	}
	tips := f.wantedTips()
	if len(tips) == 0 {
		return nil
	}
	haves, err := f.knownCommits()
	if err != nil {
		return err
	}
	if haves, err = f.inb.commits(ctx, haves); err != nil {
		return err
	}
	b := &bringing{fetch: f, haves: haves, most: f.order.MaxBytes}
	if err := b.bringAll(ctx, tips); err != nil {
		return err
	}
	if b.came == 0 && len(haves) > 0 {
		// The commits we claimed to have may not be whole: then everything is sent.
		if err := f.inb.makeEmpty(); err != nil {
			return err
		}
		b = &bringing{fetch: f, most: f.order.MaxBytes}
		if err := b.bringAll(ctx, tips); err != nil {
			return err
		}
	}
	if b.came == 0 {
		return b.first
	}
	for i := range f.Branches {
		if err := b.bad[f.Branches[i].New]; err != nil && f.Branches[i].Result != Refused {
			f.Branches[i].refuse(err)
		}
	}
	return nil
}

// refuseMissing refuses branches whose commit the sandbox does not have.
func (f *fetch) refuseMissing(ctx context.Context) error {
	tips := f.wantedTips()
	here, err := f.inb.commits(ctx, tips)
	if err != nil {
		return err
	}
	there, err := f.in.commits(slices.DeleteFunc(tips, func(h string) bool { return slices.Contains(here, h) }))
	if err != nil {
		return err
	}
	for i := range f.Branches {
		b := &f.Branches[i]
		if b.Result != Refused && !slices.Contains(here, b.New) && !slices.Contains(there, b.New) {
			b.refuse(errors.New("it is at no commit that the sandbox has"))
		}
	}
	return nil
}

// maxAttempts bounds how often the sandbox is asked to send something, however many branches
// fail.
const maxAttempts = 200

// bringing finds the commits that do not come whole by bisection: one bad commit spoils the pack
// that it is in.
type bringing struct {
	*fetch
	haves    []string
	most     int64 // bytes still allowed
	attempts int
	came     int              // commits
	bad      map[string]error // by commit
	first    error            // of those
}

func (b *bringing) bringAll(ctx context.Context, tips []string) error {
	err := b.attempt(ctx, tips)
	switch {
	case err == nil:
		b.came += len(tips)
		return nil
	case ctx.Err() != nil, errors.Is(err, errTooLarge), errors.Is(err, errSilent):
		return err
	}
	if b.first == nil {
		b.first, b.bad = err, map[string]error{}
	}
	if len(tips) == 1 || b.attempts >= maxAttempts {
		for _, tip := range tips {
			b.bad[tip] = err
		}
		return nil
	}
	half := len(tips) / 2
	if err := b.bringAll(ctx, tips[:half]); err != nil {
		return err
	}
	return b.bringAll(ctx, tips[half:])
}

// attempt gets some commits together. If they do not come, it leaves nothing of them in the
// inbox.
func (b *bringing) attempt(ctx context.Context, tips []string) error {
	b.attempts++
	before, err := b.inb.packNames()
	if err != nil {
		return err
	}
	err = b.receive(ctx, tips)
	if err == nil {
		err = b.inb.checkWhole(ctx, tips, b.haves)
	}
	if err != nil {
		return errors.Join(err, b.inb.discard(before))
	}
	return nil
}

// receive makes the sandbox send the missing objects of some commits.
func (b *bringing) receive(ctx context.Context, tips []string) error {
	missing := tips
	if b.haves != nil {
		there, err := b.inb.commits(ctx, tips)
		if err != nil {
			return err
		}
		missing = slices.DeleteFunc(slices.Clone(tips), func(h string) bool { return slices.Contains(there, h) })
	}
	if len(missing) == 0 {
		return nil
	}
	common, err := b.in.commits(b.haves)
	if err != nil {
		return err
	}
	n, err := b.inb.receive(ctx, b.in, missing, common, min(b.most, 2*b.order.MaxBytes-b.Bytes))
	b.Bytes += n
	if err == nil { // discarded bytes count only against twice the limit
		b.most -= n
	}
	return err
}
