package review

import (
	"crypto/sha256"
	"encoding/binary"
	"path"

	"golang.org/x/sys/unix"
)

// An apply records each directory in which it was the last to add or remove names (see touching).
// A killed apply has not recorded that, and its own changes would look like the host's. So the
// intent has a sum of the names that no step changes. If the sum is the same later, the host has
// added and removed no names.

// sumNames adds up the names in a directory that are not left out.
func (d *dir) sumNames(leftOut map[string]bool) (sum uint64, err error) {
	names, err := d.names()
	for _, name := range names {
		if !leftOut[name] {
			h := sha256.Sum256([]byte(name))
			sum += binary.LittleEndian.Uint64(h[:])
		}
	}
	return sum, err
}

// namesOf returns the names that steps change in one directory.
func namesOf(list []intended, at string) map[string]bool {
	names := map[string]bool{}
	for _, n := range list {
		if n.Dir == at {
			names[n.Name], names[n.Temp] = true, true
		}
	}
	return names
}

// sumQuiet sums up the names in the directories of the batch in which only applies have added
// or removed any.
func (a *applying) sumQuiet(list []intended) {
	seen := map[string]bool{}
	for _, s := range a.batch {
		at := path.Dir(a.orders[s.order].Path)
		if seen[at] {
			continue
		}
		seen[at] = true
		delete(a.quiet, at)
		if a.sinceChanged(at, s.dir) {
			continue
		}
		if sum, err := s.dir.sumNames(namesOf(list, at)); err == nil {
			a.quiet[at] = sum
		}
	}
}

// noteQuiet notes of directories with the same names as before that an apply has changed them
// last.
func (l *look) noteQuiet(n intent) {
	for at, before := range n.Quiet {
		d, err := l.host.sub(at)
		if err != nil {
			continue
		}
		sum, err := d.sumNames(namesOf(n.Files, at))
		var st unix.Stat_t
		if err == nil && sum == before && unix.Fstat(d.fd(), &st) == nil {
			l.noteTouched(at, &st)
		}
		d.close()
	}
}
