package pull

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/bothy-dev/bothy/internal/fetch"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// registry is one repository of a registry.
type registry struct {
	http *http.Client
	base *url.URL // of the repository
}

// connectSource connects to the registry of a reference that is to be fetched.
func (w *worker) connectSource(ctx context.Context, text string) (ref image.Reference, reg *registry, err error) {
	if ref, err = image.ParseReference(text); err != nil {
		return ref, nil, err
	}
	w.progress(image.Event{Phase: image.Resolving})
	reg, err = w.connect(ctx, ref, w.order.Foreign, "repository:"+ref.Repository+":pull")
	return ref, reg, err
}

func (w *worker) pullImage(ctx context.Context) (none image.Image, err error) {
	ref, reg, err := w.connectSource(ctx, w.order.Pull)
	if err != nil {
		return none, err
	}
	defer reg.http.CloseIdleConnections()
	r, err := reg.resolve(ctx, ref)
	if err != nil {
		return none, err
	}
	told := w.counter(image.Downloading, totalSize(r.manifest))
	for _, d := range append(r.manifest.Layers, r.manifest.Config) {
		if err := w.download(ctx, reg, d, told); err != nil {
			return none, err
		}
	}
	return whileLocked(ctx, w, func(ctx context.Context) (image.Image, error) {
		if err := w.storeText(r.Descriptor, r.text); err != nil {
			return none, err
		}
		return w.addNamed(ctx, r, ref.Name())
	})
}

func totalSize(m image.Manifest) int64 {
	sum := m.Config.Size
	for _, l := range m.Layers {
		sum += l.Size
	}
	return sum
}

// connect prepares requests to a registry, with the login that the caller's Docker would use. foreign is
// set if the user did not name the registry.
func (w *worker) connect(ctx context.Context, ref image.Reference, foreign bool, scopes ...string) (*registry, error) {
	c, err := credentialFor(ctx, w.paths, ref.Registry)
	if err != nil {
		return nil, err
	}
	foreign = foreign && c == (credential{})
	if foreign {
		if err := checkForeign(ref.Registry); err != nil {
			return nil, err
		}
	}
	host := ref.Registry
	if host == hub {
		host = "registry-1.docker.io"
	}
	roots, err := callersRoots()
	if err != nil {
		return nil, err
	}
	next := newGuard(host, roots)
	next.foreign = foreign
	next.scheme = scheme(ctx, next, host)
	return &registry{
		http: &http.Client{
			Transport:     &login{next: next, host: host, scopes: scopes, credential: c},
			CheckRedirect: fetch.CheckRedirect,
		},
		base: &url.URL{Scheme: next.scheme, Host: host, Path: "/v2/" + ref.Repository + "/"},
	}, nil
}

// scheme returns https, unless the registry is on this machine and does not speak it.
func scheme(ctx context.Context, next http.RoundTripper, host string) string {
	const encrypted, clear = "https", "http"
	u := &url.URL{Scheme: encrypted, Host: host, Path: "/v2/"}
	if !loopback(u.Hostname()) {
		return encrypted
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return encrypted
	}
	resp, err := next.RoundTrip(r)
	if err != nil {
		return clear
	}
	_ = resp.Body.Close()
	return encrypted
}

// unreachable reports that a registry could not be asked, or would not answer.
func unreachable(registry string, err error) error {
	if said, ok := errors.AsType[*spec.Error](err); ok {
		return said // the error of the token server
	}
	return &broken{spec.Errorf(nil, "ask %s: %w", registry, err).
		WithHint("check the network, and HTTPS_PROXY if there is a proxy; images that are here already need no network: bothy template ls")}
}

// broken is an error after which a retry is worthwhile.
type broken struct{ err *spec.Error }

func (b *broken) Error() string { return b.err.Error() }
func (b *broken) Unwrap() error { return b.err }

func errStatus(registry string, status int, what string) error {
	switch {
	case status == http.StatusNotFound:
		return spec.Errorf(spec.ErrNotFound, "%s has no %s", registry, what).WithHint("check the name and the tag")
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return spec.Errorf(spec.ErrDenied, "%s refuses it (%d): the image does not exist, or you may not have it", registry, status).
			WithHint("check the name, or log in: docker login %s", registry)
	case status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		return &broken{spec.Errorf(nil, "ask %s: it answers with status %d", registry, status).WithHint("try again later")}
	}
	return spec.Errorf(nil, "ask %s: it answers with status %d", registry, status)
}

func (r *registry) getPath(ctx context.Context, path string, header http.Header) (*http.Response, error) {
	return r.sendRequest(ctx, http.MethodGet, r.base.JoinPath(path), header, nil)
}

// accept lists the supported kinds of manifests.
var accept = []string{image.TypeIndex, image.TypeManifest, image.TypeDockerList, image.TypeDockerManifest}

func (r *registry) resolve(ctx context.Context, ref image.Reference) (resolved, error) {
	var first []byte
	d := image.Descriptor{Digest: ref.Digest}
	if ref.Digest == "" {
		var err error
		if first, d.MediaType, err = r.manifest(ctx, ref.Tag); err != nil {
			return resolved{}, err
		}
		d.Digest = image.DigestOf(first)
	}
	return resolve(ctx, d, func(ctx context.Context, d image.Descriptor) ([]byte, error) {
		text := first
		if first = nil; text == nil {
			var err error
			if text, _, err = r.manifest(ctx, d.Digest); err != nil {
				return nil, err
			}
		}
		return checkDigest(d, text)
	})
}

// reference is the user's form of a registry's repository path and tag or digest.
func reference(path, what string) string {
	sep := ":"
	if strings.Contains(what, ":") {
		sep = "@"
	}
	return strings.Trim(strings.TrimPrefix(path, "/v2/"), "/") + sep + what
}

func (r *registry) manifest(ctx context.Context, what string) (text []byte, mediaType string, err error) {
	return r.fetchText(ctx, "manifests/"+what, http.Header{"Accept": accept}, reference(r.base.Path, what), maxManifest)
}

// fetchText fetches a resource that fits into memory. Errors call it name.
func (r *registry) fetchText(ctx context.Context, path string, header http.Header, name string, most int64) (text []byte, mediaType string, err error) {
	resp, err := r.getPath(ctx, path, header)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, "", errStatus(r.base.Host, resp.StatusCode, name)
	}
	text, err = store.ReadAll(resp.Body, most)
	mediaType, _, _ = strings.Cut(resp.Header.Get("Content-Type"), ";")
	return text, mediaType, err
}

// download fetches a blob and resumes an earlier download.
func (w *worker) download(ctx context.Context, r *registry, d image.Descriptor, told func(int64)) error {
	if w.hasBlob(d) {
		told(d.Size)
		return nil
	}
	p, err := w.resumePart(ctx, d)
	if err != nil {
		return err
	}
	defer p.close()
	if w.hasBlob(d) { // another pull has fetched it meanwhile
		p.remove()
		told(d.Size)
		return nil
	}
	resumed := p.done > 0
	told(p.done)
	err = r.fetchRest(ctx, p, told)
	if errors.Is(err, errMismatch) && resumed { // the old part may have been wrong, and not the new data
		told(-p.done)
		if err = p.restart(); err == nil {
			err = r.fetchRest(ctx, p, told)
		}
	}
	if errors.Is(err, errMismatch) {
		if err := os.Remove(p.f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return tampered(d)
	}
	if errors.Is(err, spec.ErrConflict) { // the disk limit is reached, and will not change
		p.remove()
	}
	return err
}

// fetchRest downloads the missing part of a blob, and finishes it.
func (r *registry) fetchRest(ctx context.Context, p *part, told func(int64)) error {
	again := func(err error) bool { _, ok := errors.AsType[*broken](err); return ok }
	if p.done < p.d.Size {
		err := fetch.Resume(ctx, func() int64 { return p.done }, again, func(ctx context.Context) error { return r.fetchSome(ctx, p, told) })
		if err != nil {
			return err
		}
	}
	return p.finish()
}

// fetchSome fetches as much of a blob as one connection delivers.
func (r *registry) fetchSome(ctx context.Context, p *part, told func(int64)) error {
	header := http.Header{}
	fetch.AskFrom(header, p.done)
	resp, err := r.getPath(ctx, "blobs/"+p.d.Digest, header)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		told(-p.done)
		if err := p.restart(); err != nil {
			return err
		}
	case http.StatusPartialContent:
		if !fetch.IsFrom(resp, p.done) {
			return spec.Errorf(nil, "ask %s: it gives another part than was asked for", r.base.Host)
		}
	default:
		return errStatus(r.base.Host, resp.StatusCode, "blob "+p.d.Digest)
	}
	if n := resp.ContentLength; n >= 0 && n != p.d.Size-p.done { // another length: it is another blob
		return errMismatch
	}
	_, err = io.Copy(p, &counted{ctx, resp.Body, told})
	if err == nil && p.done < p.d.Size {
		err = io.ErrUnexpectedEOF
	}
	_, ours := errors.AsType[*spec.Error](err)
	if err != nil && !ours && !errors.Is(err, errMismatch) && ctx.Err() == nil {
		err = unreachable(r.base.Host, err)
	}
	return err
}
