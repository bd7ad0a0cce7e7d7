package review

// chmods tells who gave a directory another mode since both sides had the same. A layer has
// the mode of all directories in which anything was changed, most of which the inside never
// set: that is not to take back what the host set since. Where it is not known which mode was
// the same, the inside has set it, and, if it changed at all, the host too.
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
		// It may have had another one for a while, which the layer has then.
		meanwhile := was.Mark.Changed >= l.record.Since && was.Mark.Changed != was.Mark.Modified
		return now.Mode != before.mode, was.Mode != before.mode || meanwhile
	}
	return !l.brought(parent, name, c), was.Mark.Changed >= l.record.Since
}

// brought tells whether the host has, where it had nothing when the inside began and nothing was
// applied, something new with the mode that an apply gives it: it was brought in another way,
// such as by a patch. What the host had before may have got another mode inside, which is to be
// shown, whoever has written it anew since.
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
