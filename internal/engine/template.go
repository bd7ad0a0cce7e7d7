package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/internal/sealedfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Templates are those that were made from sandboxes.
func (e *Engine) Templates() savedtemplate.Shelf {
	return savedtemplate.Shelf{Dir: e.Store.Templates()}
}

// SaveTemplate makes a template of what a sandbox has changed in its root layer
// and of its home. One that runs goes on meanwhile.
func (e *Engine) SaveTemplate(ctx context.Context, sb *spec.Sandbox, name string) (savedtemplate.Template, error) {
	name, err := savedtemplate.NewName(name)
	if err != nil {
		return savedtemplate.Template{}, err
	}
	if err := e.room(); err != nil {
		return savedtemplate.Template{}, e.opError("save sandbox "+sb.Name, sb, err)
	}
	if sb.Broken != "" {
		return savedtemplate.Template{}, brokenError(sb)
	}
	t := savedtemplate.Template{Name: name, Base: spec.TemplateHost, Agent: sb.Agent, From: sb.Name, SavedAt: time.Now().UTC(), Docker: sb.Docker}
	if sb.Image != nil {
		t.Base, t.BaseName = sb.Image.Digest, sb.Image.Name
	}
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		t.Places = append(t.Places, m.Target)
	}
	t.Places = append(t.Places, sb.Private...)
	save := func() (err error) {
		d := e.Store.Sandbox(sb.ID)
		layers := layer.Store{Dir: d.Layers()}
		for range saveTries {
			current, lerr := layers.Current()
			if lerr != nil {
				return lerr
			}
			if t, err = e.Templates().Save(t, current, d.Home(), func(home *os.Root) error { return e.strip(sb, home) }); !errors.Is(err, fs.ErrNotExist) {
				break
			} // else a newer save of the layer has taken its place just now
		}
		return err
	}
	e.say("saving %s as %s", sb.Name, name)
	err = e.tell(ctx, sb, func(_ context.Context, c *unixconn.Conn) error {
		defer c.Close()
		if err := askToSave(c); err != nil {
			return err
		}
		return save()
	}, func() error {
		if err := e.Whole(sb); err != nil {
			return err
		}
		return save()
	})
	if err != nil {
		return t, e.opError("save sandbox "+sb.Name, sb, err)
	}
	return t, nil
}

// askToSave has a keeper save the root layer of its sandbox.
func askToSave(c *unixconn.Conn) error {
	if err := c.SendJSON(wire.Request, wire.Ask{Op: wire.OpSave}); err != nil {
		return spec.ErrStopping
	}
	return c.Expect(wire.Reply, &spec.RootLayer{})
}

// strip takes out of a home what is lent to its sandbox, and where that may be used:
// others begin with their own. Somebody inside may have made anything there.
func (e *Engine) strip(sb *spec.Sandbox, home *os.Root) error {
	if err := e.removeLendable(sb, home); err != nil {
		return err
	}
	return credential.ForgetNpm(home)
}

// removeLendable takes the files out of a home that are its sandbox's alone: what the
// agent of the sandbox has of a credential, and what any other logged in with that was run
// there. Where others would look there may be what leads out of the home, as with somebody
// whose settings lie in the workspace.
func (e *Engine) removeLendable(sb *spec.Sandbox, home *os.Root) error {
	anybodys, err := e.Agents.LoginFiles()
	if err != nil {
		return err
	}
	own, err := e.lendable(sb)
	if err != nil {
		return &spec.Error{Op: "look where its agent keeps what it logs in with", Err: err, Hint: spec.Hint(err)}
	}
	for _, pattern := range slices.Concat(own, anybodys) {
		err := eachLogin(home, ".", strings.Split(pattern, "/"), func(name string) error {
			if !slices.Contains(own, pattern) && !within(home, name) {
				return nil
			}
			return home.RemoveAll(name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachLogin calls do for each path below a directory of a home that a pattern of logins
// may mean, there or not. Directories that lead out of the home, or cannot be read, have
// none.
func eachLogin(home *os.Root, dir string, steps []string, do func(name string) error) error {
	i := slices.IndexFunc(steps, func(step string) bool { return strings.Contains(step, "*") })
	if i < 0 {
		return do(path.Join(dir, path.Join(steps...)))
	}
	dir = path.Join(dir, path.Join(steps[:i]...))
	names, err := namesIn(home, dir, steps[i])
	for _, name := range names {
		if err := eachLogin(home, path.Join(dir, name), steps[i+1:], do); err != nil {
			return err
		}
	}
	return err
}

// namesIn gives the names in a directory of a home that fit a pattern.
func namesIn(home *os.Root, dir, pattern string) (found []string, err error) {
	d, err := home.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(512) // there may be any number
		for _, name := range names {
			if ok, _ := path.Match(pattern, name); ok {
				found = append(found, name)
			}
		}
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, fmt.Errorf("look for logins: %w", err)
		}
	}
}

// within tells whether the directories on the way to a name lie in a home.
func within(home *os.Root, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := home.Stat(dir); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// lendable are the files of a home that have placeholders in them, or what the agent of the
// sandbox logged in with itself.
func (e *Engine) lendable(sb *spec.Sandbox) ([]string, error) {
	a, err := e.Agents.In(sb)
	if a == nil {
		return nil, err
	}
	files := slices.Clone(a.Logins)
	for _, f := range a.Home {
		if lends(f) {
			files = append(files, f.Path)
		}
	}
	if a.Login != nil {
		files = append(files, credential.LoginFiles(a.Login)...)
	}
	return files, nil
}

// saveTries is how often a layer may be replaced while it is read.
const saveTries = 5

// begin has a new sandbox begin with what its template holds.
func (e *Engine) begin(ctx context.Context, sb *spec.Sandbox) func(store.Sandbox) error {
	return func(d store.Sandbox) error {
		if sb.Build != nil {
			return nil // it begins with what a step has left, and has no home
		}
		if sb.Template == spec.TemplateHost {
			return nil
		}
		base := spec.TemplateHost
		if i := sb.Image; i != nil {
			e.Images().Touch(i.Digest)
			if base = i.Digest; sb.Template == i.Name || sb.Template == i.Digest {
				return e.beginImage(ctx, sb, d)
			}
		}
		t, err := e.Templates().Find(sb.Template)
		if err != nil {
			return err
		}
		if t.Base != base {
			return spec.Errorf(spec.ErrConflict, "template %s was saved anew just now", t.Name).WithHint("run it again")
		}
		if err := e.Templates().Fill(sb.Template, layer.Store{Dir: d.Layers()}.First(), d.Home()); err != nil {
			return fmt.Errorf("begin with its template: %w", err)
		}
		return nil
	}
}

// ExportTemplate writes a template as a file that only the owner of this state directory
// can read, or have made: its layer is one of the wall's own, which is given to the wall
// as it is.
func (e *Engine) ExportTemplate(name string, to io.Writer) error {
	return e.sealFile(to, func(sealed io.Writer) error { return e.Templates().Export(name, sealed) })
}

// ImportTemplate reads what ExportTemplate wrote. The name may be empty.
func (e *Engine) ImportTemplate(from io.Reader, name string) (savedtemplate.Template, error) {
	if err := e.room(); err != nil {
		return savedtemplate.Template{}, err
	}
	open, err := e.openSealed(from)
	if errors.Is(err, sealedfile.ErrNone) {
		err = spec.Errorf(spec.ErrUsage, "it is no image, and no template that bothy save -o has sealed").
			WithHint("what others have made is taken as an image alone: bothy save -o of a sandbox with an image (-t IMAGE) makes one")
	}
	if err != nil {
		return savedtemplate.Template{}, err
	}
	return e.Templates().Import(open, name)
}
