package apply

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/patch"
	"github.com/bothy-dev/bothy/internal/review/quote"
)

// tempPrefix marks files on their way to their final name.
const tempPrefix = ".bothy-apply-"

func newNonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func (a *applying) nextTemp() string {
	a.named++
	return tempPrefix + a.nonce + "-" + strconv.Itoa(a.named)
}

// stageFile writes a new file beside its final name.
func (a *applying) stageFile(s *step) error {
	err := a.writeNew(s)
	if err == nil && a.outcome[s.order].Result == "" {
		s.mine, err = s.dir.Identify(s.temp)
	}
	return err
}

func (a *applying) writeNew(s *step) error {
	o := a.orders[s.order]
	switch o.New.Form {
	case beneath.Link:
		return a.naming(s, func() error { return unix.Symlinkat(o.New.Target, s.dir.FD(), s.temp) })
	case beneath.Directory:
		return a.naming(s, func() error { return s.dir.Mkdir(s.temp, o.HostMode()) })
	}
	if o.Pick != nil {
		return a.stageHunks(s)
	}
	in, mark := a.Upper, o.New.Mark
	if o.Kind == review.Mode { // contents written through memory meanwhile have no flags, and no other mark
		in, mark = a.Host, o.Old.Mark
	}
	from, err := in.OpenSeen(o.Path, mark)
	if err != nil {
		return err
	}
	defer from.Close()
	return a.writeFile(s, o.HostMode(), func(to *os.File) error {
		var seen *beneath.Hasher
		if o.Shown != nil {
			seen = beneath.NewHasher()
		}
		if err := beneath.CopyData(to, from, o.New.Size, seen); err != nil {
			return err
		}
		if seen != nil && seen.Sum(o.New.Size) != *o.Shown {
			return beneath.ErrChanged()
		}
		return beneath.CheckUnchanged(from, mark)
	})
}

// textOf reads a text of which some hunks are wanted.
func (l *job) textOf(o Order) (t patch.Text, err error) {
	if !o.HasHunks() {
		return t, nil
	}
	t, err = patch.ReaderOf(l.View).Text(o.Change)
	if err == nil && o.Shown != nil && t.Digest != *o.Shown {
		err = beneath.ErrChanged()
	}
	return t, err
}

// stageHunks writes the host's file with some of the hunks.
func (a *applying) stageHunks(s *step) error {
	o := a.orders[s.order]
	t, err := a.textOf(o)
	if err != nil {
		return err
	}
	text, hunks := t.Merged(o.Pick)
	if hunks == 0 {
		a.endOrder(s.order, Unmatched, t.Left)
		return nil
	}
	s.partly = hunks < t.Hunks() || o.Old.Mode != o.New.Mode && o.Old.Form != beneath.Nothing
	mode := o.HostMode()
	if s.partly && o.Old.Form != beneath.Nothing {
		mode = o.Old.Mode
	}
	return a.writeFile(s, mode, func(to *os.File) error {
		_, err := io.WriteString(to, text)
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

// writeFile makes the new file. It is a fresh one, of the caller's, never set-uid.
func (a *applying) writeFile(s *step, mode uint32, fill func(*os.File) error) error {
	f, err := a.createTemp(s)
	if err != nil {
		return fmt.Errorf("write beside %s: %w", quote.Path(s.name), err)
	}
	err = fill(f)
	if err == nil {
		err = unix.Fchmod(int(f.Fd()), mode&0o777)
	}
	if err == nil && a.isSmall() {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = a.naming(s, func() error { return unix.Unlinkat(s.dir.FD(), s.temp, 0) })
	}
	return err
}

func (a *applying) createTemp(s *step) (f *os.File, err error) {
	err = a.naming(s, func() error {
		fd, err := unix.Openat(s.dir.FD(), s.temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		f = os.NewFile(uintptr(fd), s.temp)
		return err
	})
	return f, err
}
