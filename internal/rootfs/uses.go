package rootfs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/build/cache"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Users returns the sandboxes and templates that use each image, by its digest, in words.
func (i *Images) Users() (map[string][]string, error) {
	sandboxes, err := i.Store.List()
	if err != nil {
		return nil, err
	}
	templates, err := i.templates().List()
	if err != nil {
		return nil, err
	}
	users := map[string][]string{}
	for _, sb := range sandboxes {
		if sb.Broken != "" {
			return nil, spec.Errorf(spec.ErrConflict, "sandbox %s is broken, so its image is unknown", sb.Name).WithHint("remove it: bothy rm %s", sb.Name)
		}
		if sb.Image != nil {
			users[sb.Image.Digest] = append(users[sb.Image.Digest], nameUser(sb))
		}
	}
	err = i.Sandboxes.EachAway(func(sb *spec.Sandbox) error {
		if sb.Image != nil {
			users[sb.Image.Digest] = append(users[sb.Image.Digest], "sandbox "+sb.Name+", which is put away")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, t := range templates {
		if t.Broken != "" {
			return nil, spec.Errorf(spec.ErrConflict, "template %s is broken, so its image is unknown", t.Name).WithHint("remove it: bothy template rm %s", t.Name)
		}
		if t.Base != spec.TemplateHost {
			users[t.Base] = append(users[t.Base], "template "+t.Name)
		}
	}
	return users, nil
}

// templates returns the directory of the templates that were made from sandboxes.
func (i *Images) templates() savedtemplate.Shelf {
	return savedtemplate.Shelf{Dir: i.Store.Templates()}
}

// nameUser names a sandbox that uses an image. Lists do not show the sandboxes of builds, which end
// by themselves.
func nameUser(sb *spec.Sandbox) string {
	if sb.Build != nil {
		return "a build that runs (" + sb.Name + ")"
	}
	return "sandbox " + sb.Name
}

// CheckUnused returns an error of class [spec.ErrConflict] that names the users of an image if it
// would lose its last name.
func (i *Images) CheckUnused(img image.Image) error {
	users, err := i.Users()
	if err != nil {
		return err
	}
	list, err := i.Shelf().List()
	if err != nil {
		return err
	}
	more := slices.ContainsFunc(list, func(other image.Image) bool { return other.Digest == img.Digest && other.Name != img.Name })
	if by := users[img.Digest]; len(by) > 0 && !more {
		return spec.Errorf(spec.ErrConflict, "image %s is used by %s", image.Short(cmp.Or(img.Name, img.Digest)), strings.Join(by, ", ")).
			WithHint("remove that first, or wait until it ends if it is a build")
	}
	return nil
}

// Remove takes a name from an image, and removes the files that no image needs then. No sandbox can
// begin to use it meanwhile.
func (i *Images) Remove(img image.Image) error {
	return i.change(func(s image.Shelf) error {
		if err := i.CheckUnused(img); err != nil {
			return err
		}
		if err := s.Forget(img); err != nil {
			return err
		}
		_, err := i.sweepUnused(s)
		if errors.Is(err, image.ErrHeld) {
			err = nil // the next sweep removes it
		}
		return err
	})
}

// Prune removes images that have no name and no user, and interrupted downloads. It returns the
// bytes that it freed.
func (i *Images) Prune() (freed int64, err error) {
	err = i.change(func(s image.Shelf) error {
		parts, err := s.SweepParts()
		if err != nil {
			return err
		}
		freed, err = i.sweepUnused(s)
		freed += parts
		return err
	})
	return freed, err
}

// Sweep removes images that have no name and no user. It returns the bytes that it freed.
func (i *Images) Sweep() (freed int64, err error) {
	err = i.change(func(s image.Shelf) error {
		freed, err = i.sweepUnused(s)
		return err
	})
	return freed, err
}

func (i *Images) sweepUnused(s image.Shelf) (int64, error) {
	used, err := i.usedDigests()
	if err != nil {
		return 0, err
	}
	return s.Sweep(used)
}

// usedDigests returns the digests of the images that sandboxes, templates and steps of builds use.
func (i *Images) usedDigests() (map[string]bool, error) {
	users, err := i.Users()
	if err != nil {
		return nil, err
	}
	bases, err := i.stepBases()
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for digest := range bases {
		used[digest] = true
	}
	for digest := range users {
		if image.CheckDigest(digest) == nil {
			used[digest] = true
		}
	}
	return used, nil
}

// stepBases returns the images below cached build steps, by their digests, each with the keys of
// these steps.
func (i *Images) stepBases() (map[string][]string, error) {
	steps, err := cache.Shelf{Dir: i.Store.Builds()}.Steps()
	bases := map[string][]string{}
	for _, s := range steps {
		for _, digest := range []string{s.Base, s.Image} {
			if image.CheckDigest(digest) == nil {
				bases[digest] = append(bases[digest], s.Key)
			}
		}
	}
	return bases, err
}

// imagesAtWork describes the work of the holder of the images' lock.
const imagesAtWork = "an image is being fetched, written or sent"

// change calls do while no sandbox is created, and no process works on an image.
func (i *Images) change(do func(image.Shelf) error) error {
	names, err := i.Store.NamesLock(context.Background())
	if err != nil {
		return err
	}
	defer names.Unlock()
	s := i.Shelf()
	if _, err := os.Lstat(s.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := store.TryLock(s.Lock())
	if errors.Is(err, store.ErrLocked) {
		return spec.Errorf(spec.ErrConflict, imagesAtWork).WithHint("try again when that is done")
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return do(s)
}
