package layers

import (
	"io"
	"os"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/erofs"
)

// Options describe the sandboxes that a root is made for.
type Options struct {
	// UID and GID are the ids that own files of the host, as the sandbox sees them. The image's user
	// gets them.
	UID, GID int
	// Room is the space that may be used.
	Room *image.Room
	// Config is the image's configuration.
	Config image.Config
	// Resolver is the content of the sandbox's /etc/resolv.conf.
	Resolver string
}

// Build applies layers, from the lowest to the highest. It writes their root to an empty
// file, and an archive of the user's home directory.
func Build(to *os.File, home io.Writer, o Options, layers []func() (io.ReadCloser, error)) (image.Root, error) {
	b := &builder{tree: newTree(), out: erofs.NewWriter(to), room: o.Room}
	for _, open := range layers {
		b.layer++
		if err := b.applyNext(open); err != nil {
			return image.Root{}, err
		}
	}
	b.layer++
	root, err := b.settle(o)
	if err != nil {
		return root, err
	}
	if err := b.writeHome(home, root.Account.Home); err != nil {
		return root, err
	}
	top, kept := b.finishTree(o, root.Account)
	for _, d := range b.added {
		if !kept[d.Block] {
			b.out.Drop(d)
		}
	}
	return root, b.out.Finish(top, o.Config.Made.Unix())
}

func (b *builder) applyNext(open func() (io.ReadCloser, error)) error {
	r, err := open()
	if err != nil {
		return err
	}
	if err := b.applyLayer(r); err != nil {
		_ = r.Close()
		return err
	}
	return r.Close() // checks the digest
}

// finishTree returns the tree to be written, and the first blocks of the contents in use.
func (b *builder) finishTree(o Options, a image.Account) (*erofs.Node, map[uint32]bool) {
	users, groups := swapIDs(o.UID, a.ImageUID), swapIDs(o.GID, a.ImageGID)
	done := map[*node]bool{}
	kept := map[uint32]bool{}
	var visit func(n *node)
	visit = func(n *node) {
		if done[n] {
			return
		}
		done[n] = true
		n.UID, n.GID = users(n.UID), groups(n.GID)
		if n.Data.Size > 0 {
			kept[n.Data.Block] = true
		}
		if !n.IsDir() {
			return
		}
		n.Entries = make(map[string]*erofs.Node, len(n.kids))
		for name, kid := range n.kids {
			visit(kid.node)
			n.Entries[name] = &kid.Node
		}
	}
	visit(b.root)
	return &b.root.Node, kept
}

func swapIDs(a, b int) func(uint32) uint32 {
	return func(id uint32) uint32 { return uint32(image.SwapIDs(int(id), a, b)) }
}
