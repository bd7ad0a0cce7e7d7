package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"

	"github.com/bothy-dev/bothy/internal/fetch"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// takeFromDocker takes an image from this machine's Docker, unless the shelf has the same version. If Docker
// does not have the image, or does not answer, the shelf's version is used.
func (w *worker) takeFromDocker(ctx context.Context) ([]image.Image, error) {
	ref, err := image.ParseReference(w.order.Docker)
	if err != nil {
		return nil, err
	}
	d := newDocker(w.order.Socket)
	defer d.CloseIdleConnections()
	id, err := d.findID(ctx, ref)
	here, none := w.shelf.Find(ref)
	if quiet := errors.Is(err, spec.ErrNotFound); quiet || errors.Is(err, errNoDocker) {
		if none != nil {
			return nil, spec.Errorf(spec.ErrNotFound, "%w, and %w", none, err)
		}
		if !quiet {
			w.notice = fmt.Sprintf("%s is the one that was here before: %s", ref.Short(), err)
		}
		return []image.Image{here}, nil
	}
	if err != nil {
		return nil, err
	}
	if none == nil && w.knowsImage(here, id) {
		return []image.Image{here}, nil
	}
	return w.loadFromDocker(ctx, d, ref)
}

// knowsImage reports whether Docker knows an image by an id: the digest of its configuration or, since Docker
// keeps images as registries do, of its manifest or list.
func (w *worker) knowsImage(img image.Image, id string) bool {
	if slices.Contains([]string{img.Digest, img.List}, id) {
		return true
	}
	text, err := w.readText(image.Descriptor{Digest: img.Digest}, maxManifest)
	var m image.Manifest
	return err == nil && json.Unmarshal(text, &m) == nil && m.Config.Digest == id
}

func (w *worker) loadFromDocker(ctx context.Context, d docker, ref image.Reference) ([]image.Image, error) {
	w.progress(image.Event{Phase: image.Reading})
	body, err := d.requestImage(ctx, ref, "get")
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	f, err := w.shelf.Spool(&roomy{&counted{ctx, body, func(int64) {}}, w.order.Room})
	if err != nil {
		return nil, err
	}
	from, err := indexArchive(ctx, f)
	if err != nil {
		return nil, err
	}
	w.order.Name, w.fresh = ref.String(), true
	return whileLocked(ctx, w, func(ctx context.Context) ([]image.Image, error) { return w.loadFrom(ctx, from) })
}

// docker is this machine's Docker engine, on a unix socket.
type docker struct{ *http.Client }

func newDocker(socket string) docker {
	return docker{&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{Timeout: fetch.DialTimeout}).DialContext(ctx, "unix", socket)
			if err != nil {
				err = fmt.Errorf("%w: %w", errNoDocker, err)
			}
			return conn, err
		},
	}}}
}

var errNoDocker = errors.New("no answer from Docker")

func (d docker) findID(ctx context.Context, ref image.Reference) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetch.Patience)
	defer cancel()
	body, err := d.requestImage(ctx, ref, "json")
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	text, err := store.ReadAll(body, maxAnswer)
	if err != nil {
		return "", err
	}
	var about struct{ ID string }
	if err := json.Unmarshal(text, &about); err != nil {
		return "", fmt.Errorf("read what Docker tells of %s: %w", ref.Short(), err)
	}
	return about.ID, nil
}

func (d docker) requestImage(ctx context.Context, ref image.Reference, what string) (io.ReadCloser, error) {
	u := url.URL{Scheme: "http", Host: "docker", Path: "/images/" + ref.Short() + "/" + what}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := d.Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return resp.Body, nil
	case http.StatusNotFound:
		err = spec.Errorf(spec.ErrNotFound, "Docker has none either")
	default:
		err = fmt.Errorf("ask Docker: it answers with status %d", resp.StatusCode)
	}
	_ = resp.Body.Close()
	return nil, err
}
