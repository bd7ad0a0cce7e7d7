package pull

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/fetch"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/spec"
)

// pushBundle sends an image to a registry: first the blobs that it lacks, then the manifest under the tag. So
// clients never see a partial image.
func (w *worker) pushBundle(ctx context.Context, b bundle, ref image.Reference, mount string) error {
	from := ""
	if m, err := image.ParseReference(mount); err == nil && m.Registry == ref.Registry && m.Repository != ref.Repository {
		from = m.Repository
	}
	w.progress(image.Event{Phase: image.Resolving})
	scopes := []string{"repository:" + ref.Repository + ":pull,push"}
	if from != "" {
		scopes = append(scopes, "repository:"+from+":pull")
	}
	reg, err := w.connect(ctx, ref, false, scopes...)
	if err != nil {
		return err
	}
	defer reg.http.CloseIdleConnections()
	told := w.counter(image.Uploading, b.totalSize())
	for _, x := range b.allBlobs() {
		if x.Digest == b.manifest.Digest {
			continue
		}
		if err := reg.upload(ctx, x, from, told); err != nil {
			return err
		}
	}
	return reg.putManifest(ctx, b.manifest, ref.Tag, told)
}

// tries is how often a blob is sent if the registry breaks the connection, or is busy.
const tries = 4

// upload sends a blob that the repository does not have.
func (r *registry) upload(ctx context.Context, x blob, from string, told func(int64)) error {
	there, err := r.hasBlob(ctx, x)
	for try := 1; err == nil && !there; try++ {
		var sent int64
		err = r.sendBlob(ctx, x, from, func(n int64) { sent += n; told(n) })
		if err == nil {
			return nil
		}
		if _, again := errors.AsType[*broken](err); !again || try == tries || ctx.Err() != nil {
			return err
		}
		told(-sent)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(try) * time.Second):
		}
		there, err = r.hasBlob(ctx, x)
	}
	if err == nil {
		told(x.Size)
	}
	return err
}

func (r *registry) hasBlob(ctx context.Context, x blob) (bool, error) {
	resp, err := r.sendRequest(ctx, http.MethodHead, r.base.JoinPath("blobs", x.Digest), nil, nil)
	if err != nil {
		return false, err
	}
	_ = resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusNotFound:
		return false, nil
	}
	return false, r.notTaken(resp.StatusCode)
}

// notTaken explains an error status of a push.
func (r *registry) notTaken(status int) error {
	repository := strings.Trim(strings.TrimPrefix(r.base.Path, "/v2/"), "/")
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return spec.Errorf(spec.ErrDenied, "%s does not take it (%d): you may not push to %s", r.base.Host, status, repository).
			WithHint("check the name, or log in: docker login %s", r.base.Host)
	case http.StatusNotFound:
		return spec.Errorf(spec.ErrNotFound, "%s has no repository %s, and makes none", r.base.Host, repository).
			WithHint("check the name, or make it there first")
	}
	return errStatus(r.base.Host, status, repository)
}

// sendBlob begins an upload and sends all of a blob in one piece, unless the registry has it
// in another repository.
func (r *registry) sendBlob(ctx context.Context, x blob, from string, told func(int64)) error {
	begin := r.base.JoinPath("blobs", "uploads/")
	if from != "" {
		begin.RawQuery = url.Values{"mount": {x.Digest}, "from": {from}}.Encode()
	}
	resp, err := r.sendRequest(ctx, http.MethodPost, begin, nil, nil)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusCreated: // it was mounted
		told(x.Size)
		return nil
	case http.StatusAccepted:
	default:
		return r.notTaken(resp.StatusCode)
	}
	at, err := resp.Location()
	if err != nil {
		return spec.Errorf(nil, "%s does not say where to send a blob", r.base.Host)
	}
	q := at.Query()
	q.Set("digest", x.Digest)
	at.RawQuery = q.Encode()
	resp, err = r.sendRequest(ctx, http.MethodPut, at, http.Header{"Content-Type": {"application/octet-stream"}}, &blob{x.Descriptor, func() (io.ReadCloser, error) {
		f, err := x.open()
		if err != nil {
			return nil, err
		}
		return body{&counted{ctx, f, told}, f}, nil
	}})
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusNoContent {
		return r.notTaken(resp.StatusCode)
	}
	return nil
}

type body struct {
	io.Reader
	io.Closer
}

func (r *registry) putManifest(ctx context.Context, m blob, tag string, told func(int64)) error {
	resp, err := r.sendRequest(ctx, http.MethodPut, r.base.JoinPath("manifests", tag), http.Header{"Content-Type": {m.MediaType}}, &m)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		return r.notTaken(resp.StatusCode)
	}
	if got := resp.Header.Get("Docker-Content-Digest"); got != "" && got != m.Digest {
		return spec.Errorf(spec.ErrDenied, "%s has another manifest under %s than was sent: %.80q and not %s", r.base.Host, tag, got, m.Digest)
	}
	told(m.Size)
	return nil
}

// sendRequest sends a request, and gives up if it makes no progress for too long. The registry may ask for a login
// first; then the content is opened again.
func (r *registry) sendRequest(ctx context.Context, method string, u *url.URL, header http.Header, content *blob) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, method, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	if header != nil {
		q.Header = header
	}
	if content != nil {
		q.ContentLength, q.GetBody = content.Size, content.open
	}
	resp, err := fetch.Do(r.http, q, fetch.Patience)
	if err != nil {
		return nil, unreachable(r.base.Host, err)
	}
	return resp, nil
}
