package npm

import (
	"context"
	"crypto/sha512"
	"errors"
	"hash"
	"io"
	"net/http"
	"os"

	"github.com/bothy-dev/bothy/internal/fetch"
	"github.com/bothy-dev/bothy/spec"
)

// maxTarball is the default bound of a tarball. The largest agents have 0.2 GB.
const maxTarball = 2 << 30

// Download fetches a tarball into the file at path, and continues that file if it exists. Once the hash
// is right, it returns the file, open at its start. A file with a wrong hash is removed; an incomplete
// one stays for the next attempt.
//
// If-Range is not needed: the file is named by its expected hash, and a mix of different answers has
// another hash.
func (c *Client) Download(ctx context.Context, t Tarball, path string, progress func(done, total int64)) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	d := &download{c: c, t: t, f: f, progress: progress}
	err = d.fetchWhole(ctx)
	if errors.Is(err, errMismatch) && d.resumed {
		// The old part may have been damaged, and not the new data.
		if err = d.restart(); err == nil {
			err = d.fetchWhole(ctx)
		}
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		if errors.Is(err, errMismatch) {
			os.Remove(path)
			err = spec.Errorf(spec.ErrDenied, "%s %s is refused: %w", t.Package, t.Version, err).
				WithHint("it was damaged on its way or tampered with: try again, and do not trust %s if that does not help", t.URL.Host)
		}
		return nil, err
	}
	return f, nil
}

type download struct {
	c        *Client
	t        Tarball
	f        *os.File
	sum      hash.Hash
	done     int64
	total    int64
	resumed  bool
	progress func(done, total int64)
}

var errMismatch = errors.New("its hash is another than the registry tells")

func (d *download) restart() error {
	d.sum, d.done, d.resumed = sha512.New(), 0, false
	if err := d.f.Truncate(0); err != nil {
		return err
	}
	_, err := d.f.Seek(0, io.SeekStart)
	return err
}

// fetchWhole fetches the missing part and checks the whole.
func (d *download) fetchWhole(ctx context.Context) error {
	d.sum = sha512.New()
	var err error
	if d.done, err = io.Copy(d.sum, d.f); err != nil {
		return err
	}
	d.resumed = d.done > 0
	if d.resumed && d.t.Integrity.matches(d.sum.Sum(nil)) {
		return nil
	}
	again := func(err error) bool { return errors.Is(err, ErrUnreachable) && !errors.Is(err, spec.ErrDenied) }
	err = fetch.Resume(ctx, func() int64 { return d.done }, again, d.fetchPart)
	if err == nil && !d.t.Integrity.matches(d.sum.Sum(nil)) {
		err = errMismatch
	}
	return err
}

// fetchPart fetches as much as one connection delivers.
func (d *download) fetchPart(ctx context.Context) error {
	header := http.Header{"Accept": {"application/octet-stream, */*"}}
	fetch.AskFrom(header, d.done)
	resp, err := d.c.request(ctx, d.t.URL, header)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		if err := d.restart(); err != nil {
			return err
		}
	case http.StatusPartialContent:
		if !fetch.IsFrom(resp, d.done) {
			return unreachable(d.t.URL, errors.New("it gives another part than was asked for"))
		}
		d.resumed = true
	case http.StatusRequestedRangeNotSatisfiable:
		if d.done == 0 {
			return refused(d.t.URL, resp, "tarball")
		}
		return errMismatch // the file is complete, and its hash is wrong
	default:
		return refused(d.t.URL, resp, "tarball of "+d.t.Package+" "+d.t.Version)
	}
	d.total = 0
	if resp.ContentLength >= 0 {
		d.total = d.done + resp.ContentLength
	}
	if d.total > d.c.MaxTarball {
		return d.tooLarge()
	}
	return d.copyBody(resp.Body)
}

func (d *download) tooLarge() error {
	return spec.Errorf(spec.ErrDenied, "%s %s is refused: it has more than %d MB", d.t.Package, d.t.Version, d.c.MaxTarball>>20)
}

func (d *download) copyBody(r io.Reader) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := r.Read(buf)
		if d.done+int64(n) > d.c.MaxTarball {
			return d.tooLarge()
		}
		if n > 0 {
			if _, werr := d.f.Write(buf[:n]); werr != nil {
				return &spec.Error{Op: "store a download", Err: werr}
			}
			d.sum.Write(buf[:n])
			d.done += int64(n)
			d.progress(d.done, d.total)
		}
		switch {
		case err == io.EOF && d.total > 0 && d.done < d.total:
			return unreachable(d.t.URL, io.ErrUnexpectedEOF)
		case err == io.EOF:
			return nil
		case err != nil:
			return unreachable(d.t.URL, err)
		}
	}
}
