package review

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// tempPrefix marks files on their way to their final name.
const tempPrefix = ".bothy-apply-"

func newNonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func (a *applying) temp() string {
	a.named++
	return tempPrefix + a.nonce + "-" + strconv.Itoa(a.named)
}

// stage writes a new file beside its final name.
func (a *applying) stage(s *step) error {
	err := a.fill(s)
	if err == nil && a.outcome[s.order].Result == "" {
		s.mine, err = s.dir.own(s.temp)
	}
	return err
}

func (a *applying) fill(s *step) error {
	o := a.orders[s.order]
	switch o.New.Form {
	case Link:
		return a.naming(s, func() error { return unix.Symlinkat(o.New.Target, s.dir.fd(), s.temp) })
	case Directory:
		return a.naming(s, func() error { return s.dir.mkdir(s.temp, o.mode()) })
	}
	if o.Pick != nil {
		return a.stageHunks(s)
	}
	in, mark := a.upper, o.New.Mark
	if o.Kind == Mode { // contents written through memory meanwhile have no flags, and no other mark
		in, mark = a.host, o.Old.Mark
	}
	from, err := in.read(o.Path, mark)
	if err != nil {
		return err
	}
	defer from.Close()
	return a.write(s, o.mode(), func(to *os.File) error {
		var seen *digest
		if o.Shown != nil {
			seen = newDigest()
		}
		if err := copyData(to, from, o.New.Size, seen); err != nil {
			return err
		}
		if seen != nil && seen.of(o.New.Size) != *o.Shown {
			return errChanged()
		}
		return unchanged(from, mark)
	})
}

// hunks returns the wanted hunks of a text.
func (l *look) hunks(o Order) (t Text, some []hunk, err error) {
	if !o.hasHunks() {
		return t, nil, nil
	}
	t, err = newReader(l).Text(o.Change)
	if err == nil && o.Shown != nil && t.Digest != *o.Shown {
		err = errChanged()
	}
	if err != nil {
		return t, nil, err
	}
	return t, t.pick(o.Pick), nil
}

// stageHunks writes the host's file with some of the hunks.
func (a *applying) stageHunks(s *step) error {
	o := a.orders[s.order]
	t, some, err := a.hunks(o)
	if err != nil {
		return err
	}
	if len(some) == 0 {
		a.end(s.order, Unmatched, t.Left)
		return nil
	}
	s.partly = len(some) < len(t.hunks) || o.Old.Mode != o.New.Mode && o.Old.Form != Nothing
	mode := o.mode()
	if s.partly && o.Old.Form != Nothing {
		mode = o.Old.Mode
	}
	return a.write(s, mode, func(to *os.File) error {
		_, err := io.WriteString(to, merge(t.old, t.now, some))
		return err
	})
}

// naming runs a function that adds or removes names beside the name of a step. The time between
// two calls, which may be long, is not covered: another program may add or remove names
// meanwhile.
func (a *applying) naming(s *step, do func() error) error {
	defer a.touching(path.Dir(a.orders[s.order].Path), s.dir)()
	return do()
}

// write makes the new file. It is a fresh one, of the caller's, never set-uid.
func (a *applying) write(s *step, mode uint32, fill func(*os.File) error) error {
	f, err := a.create(s)
	if err != nil {
		return fmt.Errorf("write beside %s: %w", Quote(s.name), err)
	}
	err = fill(f)
	if err == nil {
		err = unix.Fchmod(int(f.Fd()), mode&0o777)
	}
	if err == nil && a.few() {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = a.naming(s, func() error { return unix.Unlinkat(s.dir.fd(), s.temp, 0) })
	}
	return err
}

func (a *applying) create(s *step) (f *os.File, err error) {
	err = a.naming(s, func() error {
		fd, err := unix.Openat(s.dir.fd(), s.temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		f = os.NewFile(uintptr(fd), s.temp)
		return err
	})
	return f, err
}
