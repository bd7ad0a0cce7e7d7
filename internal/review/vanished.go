package review

import (
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// As long as an overlay is mounted, a directory that the inside has made is its alone, also when
// an apply has brought it: what is deleted in it leaves no mark. So what was brought since the
// mount, and is in the layer no more, was deleted by the inside. The next mount would show the
// host's, so a mark is set before that.

// vanished are the names in a directory that are missing in the layer so. names are those
// that it has.
func (l *look) vanished(p place, names []string) (gone []string) {
	if p.host == nil || p.opaque { // in the latter all that is missing is deleted
		return nil
	}
	for _, name := range l.broughtInto(p.path) {
		if _, found := slices.BinarySearch(names, name); !found {
			gone = append(gone, name)
		}
	}
	return gone
}

// broughtInto are the names that applies have brought into a directory since the mount.
func (l *look) broughtInto(dir string) []string {
	if l.brought == nil {
		l.brought = l.record.brought()
	}
	return l.brought[dir]
}

// wasBrought tells whether an apply has brought something since the mount.
func (l *look) wasBrought(at string) bool {
	_, found := slices.BinarySearch(l.broughtInto(trimDot(path.Dir(at))), path.Base(at))
	return found
}

// brought are what applies have brought since the layer was mounted, and the directories above
// it: names by directory.
func (r *record) brought() map[string][]string {
	in := map[string][]string{}
	seen := map[string]bool{}
	for at, i := range r.index {
		if r.Paths[i].Layer == (Mark{}) {
			continue
		}
		for ; at != "." && !seen[at]; at = path.Dir(at) {
			seen[at] = true
			dir := trimDot(path.Dir(at))
			in[dir] = append(in[dir], path.Base(at))
		}
	}
	for _, list := range in {
		slices.Sort(list)
	}
	return in
}

// markVanished marks as deleted what the inside has deleted without a mark, as far as the host
// has nothing else there by now. Where no mark can be set the inside has it again.
func (l *look) markVanished() error {
	l.brought = l.record.brought()
	var left []string
	for dir, names := range l.brought {
		if dir != "" {
			if cover, err := l.cover(dir); err != nil || cover != "" {
				continue // what is missing in a directory that hides the host's is deleted
			}
		}
		some, err := l.markIn(dir, names)
		if err != nil {
			return err
		}
		left = append(left, some...)
	}
	if len(left) == 0 {
		return nil
	}
	for _, at := range slices.Collect(maps.Keys(l.record.index)) {
		if slices.ContainsFunc(left, func(p string) bool { return at == p || strings.HasPrefix(at, p+"/") }) {
			l.record.taken(at)
		}
	}
	return l.Layer.write(l.record)
}

// markIn does so in a directory, and gives the paths of what has no mark.
func (l *look) markIn(at string, names []string) (left []string, err error) {
	upper, err := l.upper.sub(at)
	if hidden(err) {
		return nil, nil // it was deleted, too
	}
	if err != nil {
		return nil, err
	}
	defer upper.close()
	host, err := l.host.sub(at)
	if err != nil {
		return nil, nil
	}
	defer host.close()
	for _, name := range names {
		if _, there, err := upper.stat(name); err != nil || there {
			continue
		}
		l.list = nil
		err := l.deleted(place{path: at, upper: upper, host: host}, name, path.Join(at, name))
		other := slices.ContainsFunc(l.list, func(c Change) bool { return c.Conflict != "" || c.Refused != "" })
		if err != nil || other || len(l.list) == 0 || unix.Mknodat(upper.fd(), name, unix.S_IFCHR, 0) != nil {
			left = append(left, path.Join(at, name))
		}
	}
	l.list = nil
	return left, nil
}
