// Package layers makes one root file system from the layers of a container image.
//
// An image is data from an untrusted source. Its layers are applied to a tree in memory, where names and
// links mean nothing on this machine. Contents go into the file of an EROFS image. Nonsensical entries
// are refused. Devices, pipes, sockets and extended attributes, which a sandbox cannot use, are left
// out.
package layers

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/image/erofs"
	"github.com/bothy-dev/bothy/spec"
)

// node is a file of the tree.
type node struct {
	erofs.Node
	kids   map[string]entry // of a directory
	hidden int              // the last layer that removed everything from older layers in it
}

// entry is a name of a file, and the layer it comes from.
type entry struct {
	*node
	layer int
}

// tree is a root file system to which layers are applied.
type tree struct {
	root  *node
	layer int // the one being applied
	count int // of entries, including removed ones
	held  int // bytes of their names and of link targets
	steps int // path elements walked so far
}

func newTree() *tree {
	return &tree{root: newDir()}
}

func newDir() *node {
	return &node{Node: erofs.Node{Mode: unix.S_IFDIR | 0o755}, kids: map[string]entry{}}
}

// Bounds of an image.
const (
	maxEntries = 2 << 20
	maxNames   = 256 << 20 // bytes of all names and link targets
	maxDepth   = 512       // nested directories
	maxFollow  = 40        // links on the way to a file, as in the kernel
	maxSteps   = 1 << 30   // names on the paths to all files: links make them long
)

// splitName returns the elements of a name in an archive.
func splitName(name string) ([]string, error) {
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
		case part == "..":
			return nil, refuse("its name leads out of the image")
		case len(part) > erofs.MaxName || strings.ContainsRune(part, 0):
			return nil, refuse("its name is longer than %d bytes", erofs.MaxName)
		default:
			parts = append(parts, part)
		}
	}
	if len(parts) > maxDepth {
		return nil, refuse("it is more than %d directories deep", maxDepth)
	}
	return parts, nil
}

func refuse(format string, args ...any) error {
	return spec.Errorf(spec.ErrDenied, format, args...)
}

// putFile adds a file under a name, and replaces the file that has it. If both are directories, the contents
// stay.
func (t *tree) putFile(parent *node, name string, n *node) error {
	if t.count++; t.count > maxEntries {
		return refuse("the image has more than %d files", maxEntries)
	}
	if t.held += len(name) + len(n.Target); t.held > maxNames {
		return refuse("the names in the image have more than %d MiB", maxNames>>20)
	}
	if there, ok := parent.kids[name]; ok && there.IsDir() && n.IsDir() {
		n.kids, n.hidden = there.kids, there.hidden
	}
	// Clone, because the name is part of a header of up to a megabyte.
	parent.kids[strings.Clone(name)] = entry{n, t.layer}
	return nil
}

// directory finds the directory of a path and follows its links as far as the tree goes.
// Missing directories are made.
func (t *tree) directory(parts []string) (*node, error) {
	way, err := t.walkPath(parts, true)
	if err != nil {
		return nil, err
	}
	at := way[len(way)-1]
	if !at.IsDir() {
		return nil, refuse("%s, which should be its directory, is something else", shortName(path.Join(parts...)))
	}
	return at, nil
}

// lookup finds a file, or returns nil. It follows all links, including the last one.
func (t *tree) lookup(name string) *node {
	way, err := t.walkPath(strings.Split(name, "/"), false)
	if err != nil || way == nil {
		return nil
	}
	return way[len(way)-1]
}

// walkPath returns the files on the way to a path, the root first, with links replaced by their
// targets. It returns nil if a file is missing and create is false.
func (t *tree) walkPath(parts []string, create bool) ([]*node, error) {
	way := []*node{t.root}
	for follows := 0; len(parts) > 0; {
		if t.steps++; t.steps > maxSteps {
			return nil, refuse("the links in the image make the ways to its files too long")
		}
		part := parts[0]
		parts = parts[1:]
		at := way[len(way)-1]
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			way = way[:max(len(way)-1, 1)]
			continue
		case !at.IsDir():
			return nil, refuse("its parent is not a directory")
		case len(part) > erofs.MaxName || len(way) > maxDepth:
			return nil, refuse("it is too deep, or behind a link that is")
		}
		kid, ok := at.kids[part]
		if !ok && !create {
			return nil, nil
		}
		if !ok {
			kid = entry{newDir(), t.layer}
			if err := t.putFile(at, part, kid.node); err != nil {
				return nil, err
			}
		}
		if !kid.IsLink() {
			way = append(way, kid.node)
			continue
		}
		if follows++; follows > maxFollow {
			return nil, refuse("it is behind more than %d symbolic links", maxFollow)
		}
		if path.IsAbs(kid.Target) {
			way = way[:1]
		}
		parts = append(strings.Split(kid.Target, "/"), parts...)
	}
	return way, nil
}

// hideOlder removes the files that older layers have put under a name.
func (t *tree) hideOlder(parent *node, name string) {
	kid, ok := parent.kids[name]
	if !ok {
		return
	}
	if kid.IsDir() {
		t.hideAll(kid.node)
	}
	if kid.layer < t.layer && len(kid.kids) == 0 {
		delete(parent.kids, name)
	}
}

// hideAll removes the files that older layers have put into a directory.
func (t *tree) hideAll(dir *node) {
	if dir.hidden == t.layer {
		return // the rest is of this layer
	}
	dir.hidden = t.layer
	for name := range dir.kids {
		t.hideOlder(dir, name)
	}
}

// ensureDir makes sure that a directory exists, without a link on the way. It replaces anything
// else in its place.
func (t *tree) ensureDir(name string, mode uint16) *node {
	at := t.root
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		kid, ok := at.kids[part]
		if !ok || !kid.IsDir() {
			kid = entry{newDir(), t.layer}
			kid.Mode = unix.S_IFDIR | mode
			at.kids[part] = kid
		}
		at = kid.node
	}
	return at
}
