package review

// chmods reports who gave a directory another mode since both sides had the same. A layer has the
// mode of all directories in which anything changed. The sandbox did not set most of them, and
// they must not undo a mode that the host set since. If the common mode is unknown, the sandbox
// counts as having set its mode; so does the host, if the directory changed there at all.
func (l *look) chmods(parent *dir, name string, c Change) (inside, host bool) {
	path, was, now := c.Path, c.Old, c.New
	if was.Mode == now.Mode {
		return false, false
	}
	if l.record.has(path, was.Mark) {
		k, _ := l.record.of(path)
		applied := k.Host.Mode & 0o777
		before := applied
		if k.Inside != 0 {
			before = k.Inside
		}
		return now.Mode != before, was.Mode != applied
	}
	if before := l.was(path); before.inode == was.Mark.Inode {
		// It may have had another mode for a while, which the layer has then.
		meanwhile := was.Mark.Changed >= l.record.Since && was.Mark.Changed != was.Mark.Modified
		return now.Mode != before.mode, was.Mode != before.mode || meanwhile
	}
	return !l.brought(parent, name, c), was.Mark.Changed >= l.record.Since
}

// brought reports whether the host has something new with the mode that an apply would give it,
// at a path that was missing when the sandbox began and to which nothing was applied. It came
// another way, such as by a patch. The sandbox may have changed the mode of a file that the host
// had before; that change must be shown, even if the file was written again since.
func (l *look) brought(parent *dir, name string, c Change) bool {
	if _, applied := l.record.of(c.Path); applied || l.had(c.Path) != absent {
		return false
	}
	mode := Change{New: c.New}.mode()
	if c.New.Form == Directory {
		mode |= 0o700
	}
	return c.Old.Mode == mode && l.isNew(parent, name)
}
