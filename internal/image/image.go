// Package image keeps container images: it resolves their names and references, and stores the parts of
// each that sandboxes need. Another process fetches images (package pull), because that links an HTTP
// client.
//
// Images are stored in an OCI image layout and share its blobs. For each image, a root file system
// exists next to the layout. All its sandboxes read that root and none can write to it. A blob, a root
// or a name is complete or missing, never partial.
package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// C libraries of images, which agents are built for.
const (
	Glibc = "glibc"
	Musl  = "musl"
)

// Media types of entries of an index.
const (
	TypeManifest       = "application/vnd.oci.image.manifest.v1+json"
	TypeIndex          = "application/vnd.oci.image.index.v1+json"
	TypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	TypeDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// Annotations of the index.
const (
	// NameKey is the name of an image.
	NameKey = "org.opencontainers.image.ref.name"
	// FullNameKey is the full name if NameKey is only the tag.
	FullNameKey = "io.containerd.image.name"
	// listKey is the digest of the list of platforms that the image was chosen from.
	listKey = "dev.bothy.list"
	// claimedKey is set if the name is only claimed: see [Image].
	claimedKey = "dev.bothy.claimed"
)

// Descriptor names a blob.
type Descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	URLs        []string          `json:"urls,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *Platform         `json:"platform,omitempty"`
}

// Index is index.json of a layout, or a list of platforms.
type Index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType,omitempty"`
	Manifests     []Descriptor `json:"manifests"`
}

// Manifest lists the parts of an image.
type Manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType,omitempty"`
	Config        Descriptor   `json:"config"`
	Layers        []Descriptor `json:"layers"`
}

// Config is the part of an image's configuration that Bothy uses.
type Config struct {
	Platform
	User    string
	Env     []string
	Workdir string
	Docker  bool // it asks for a Docker daemon, with DockerLabel
	DiffIDs []string
	Made    time.Time
}

// DockerLabel is a label of images. With the value "true", sandboxes that start from the image have a
// Docker daemon of their own.
const DockerLabel = "dev.bothy.docker"

// RootVersion is the version of Root, and of the way roots are built.
const RootVersion = 1

// Root describes an image's root file system, as far as a sandbox needs to know it.
type Root struct {
	Version int       `json:"version"`
	Digest  string    `json:"digest"` // of the manifest
	Account Account   `json:"account"`
	Env     []string  `json:"env,omitempty"`
	Workdir string    `json:"workdir,omitempty"`
	Docker  bool      `json:"docker,omitempty"` // by DockerLabel
	OS      string    `json:"os"`
	Arch    string    `json:"arch"`
	Libc    string    `json:"libc,omitempty"`
	Bytes   int64     `json:"bytes"`
	Built   time.Time `json:"built"`

	// Dir is its directory.
	Dir string `json:"-"`
}

// File is the path of the file system. Home is that of an archive of its user's home directory.
func (r Root) File() string { return filepath.Join(r.Dir, rootName) }
func (r Root) Home() string { return filepath.Join(r.Dir, homeName) }

// Account is the user that an image runs as.
type Account struct {
	Name   string `json:"name"`
	UID    int    `json:"uid"` // in sandboxes
	GID    int    `json:"gid"`
	Groups []int  `json:"groups,omitempty"`
	Home   string `json:"home"`
	Shell  string `json:"shell"`

	ImageUID int `json:"image_uid"` // in the original image
	ImageGID int `json:"image_gid"`
}

// SwapIDs returns an id after a and b are exchanged. Applied again, it reverts that. If one of them is root's,
// both stay.
func SwapIDs(id, a, b int) int {
	switch {
	case a == 0 || b <= 0:
	case id == a:
		return b
	case id == b:
		return a
	}
	return id
}

// Image is an image on this machine.
type Image struct {
	Name   string `json:"name,omitempty"` // in full; empty if another image took it
	Digest string `json:"digest"`         // of the manifest
	List   string `json:"list,omitempty"` // of the list of platforms it is from
	Bytes  int64  `json:"bytes"`          // of its root
	Root   *Root  `json:"root,omitempty"`

	// Claimed: only the file it was loaded from gave this name, and that file may say
	// anything.
	Claimed bool `json:"claimed,omitempty"`
}

// Shelf is the directory of the images for sandboxes whose user has these ids inside. It need not exist.
type Shelf struct {
	Dir      string
	UID, GID int
}

// Names of the files on the shelf.
const (
	layoutName   = "oci-layout"
	indexName    = "index.json"
	lockName     = ".lock"
	heldName     = ".held"
	rootsName    = "roots"
	rootName     = "root.erofs"
	homeName     = "home.tar"
	aboutName    = "image.json"
	partPrefix   = ".part-"
	spoolPattern = ".tmp-*" // swept like the temporary files of store
	newPrefix    = ".new-"
	gonePrefix   = ".gone-"
)

const layoutText = `{"imageLayoutVersion":"1.0.0"}` + "\n"

func (s Shelf) blobsDir() string { return filepath.Join(s.Dir, "blobs", "sha256") }

func (s Shelf) rootsDir() string { return filepath.Join(s.Dir, rootsName) }

// Blob is the path of a blob. Part is the path it is written to until it is complete. The caller has
// checked the digest.
func (s Shelf) Blob(digest string) string { return filepath.Join(s.blobsDir(), Hex(digest)) }

func (s Shelf) Part(digest string) string { return filepath.Join(s.blobsDir(), partPrefix+Hex(digest)) }

// RootDir is the directory of an image's root.
func (s Shelf) RootDir(digest string) string {
	return filepath.Join(s.rootsDir(), fmt.Sprintf("%s-%d-%d", Hex(digest), s.UID, s.GID))
}

// Make creates the directories.
func (s Shelf) Make() error {
	for _, dir := range []string{s.blobsDir(), s.rootsDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(filepath.Join(s.Dir, layoutName)); err == nil {
		return nil
	}
	return store.WriteFile(filepath.Join(s.Dir, layoutName), []byte(layoutText))
}

// Lock is the path of the lock for changing the shelf.
func (s Shelf) Lock() string { return filepath.Join(s.Dir, lockName) }

func (s Shelf) readIndex() (Index, error) {
	i := Index{SchemaVersion: 2, MediaType: TypeIndex}
	err := store.ReadJSON(filepath.Join(s.Dir, indexName), &i)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return i, err
}

// MaxHome bounds the initial home of a sandbox, in bytes.
const MaxHome = 16 << 30

// Add adds an image under its name, or without one if that is empty. Another image with that name loses
// it. The caller holds the lock.
func (s Shelf) Add(d Descriptor, img Image) error {
	name := img.Name
	i, err := s.readIndex()
	if err != nil {
		return err
	}
	entry := Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size, Annotations: map[string]string{}}
	for key, value := range map[string]string{NameKey: name, listKey: img.List} {
		if value != "" {
			entry.Annotations[key] = value
		}
	}
	if img.Claimed {
		entry.Annotations[claimedKey] = "true"
	}
	for _, m := range i.Manifests {
		if name != "" && m.Annotations[NameKey] == name && m.Digest != d.Digest {
			delete(m.Annotations, NameKey)
		}
	}
	i.Manifests = slices.DeleteFunc(i.Manifests, func(m Descriptor) bool {
		mine := m.Annotations[NameKey]
		return name != "" && mine == name || mine == "" && (m.Digest == d.Digest || i.countEntries(m.Digest) > 1)
	})
	if name != "" || !slices.ContainsFunc(i.Manifests, func(m Descriptor) bool { return m.Digest == d.Digest }) {
		i.Manifests = append(i.Manifests, entry)
	}
	return store.WriteJSON(filepath.Join(s.Dir, indexName), i)
}

func (i Index) countEntries(digest string) (n int) {
	for _, m := range i.Manifests {
		if m.Digest == digest {
			n++
		}
	}
	return n
}

// List returns all images, sorted by name.
func (s Shelf) List() ([]Image, error) {
	i, err := s.readIndex()
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	list := []Image{}
	for _, m := range i.Manifests {
		if CheckDigest(m.Digest) != nil {
			continue
		}
		img := Image{Name: m.Annotations[NameKey], Digest: m.Digest, List: m.Annotations[listKey], Claimed: m.Annotations[claimedKey] != ""}
		if root, err := s.Root(m.Digest); err == nil {
			img.Root, img.Bytes = &root, root.Bytes
		}
		list = append(list, img)
	}
	slices.SortStableFunc(list, func(a, b Image) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Find returns the image that a reference names, without asking a registry. If it is missing, the error
// is of class [spec.ErrNotFound].
func (s Shelf) Find(r Reference) (Image, error) {
	list, err := s.List()
	if err != nil {
		return Image{}, err
	}
	for _, img := range list {
		pinned := r.Digest != "" && (img.Digest == r.Digest || img.List == r.Digest)
		if pinned || r.Digest == "" && img.Name == r.Name() {
			return img, nil
		}
	}
	return Image{}, spec.Errorf(spec.ErrNotFound, "no image %s on this machine", r.Short()).
		WithHint("bothy template pull %[1]s fetches it; what Docker has: docker save %[1]s | bothy template load", r.Short())
}

// minID is the shortest prefix of a digest that is accepted as an id, in hex digits.
const minID = 4

// FindID returns the entries of the image with an id. The id is a digest or a prefix of
// one, with "sha256:" or without. An invalid or unknown id is an error of class
// [spec.ErrNotFound], an ambiguous one [spec.ErrConflict].
func (s Shelf) FindID(id string) ([]Image, error) {
	digits := Hex(id)
	none := spec.Errorf(spec.ErrNotFound, "no image %s on this machine", id).WithHint("list templates: bothy template ls")
	if len(digits) < minID || strings.Trim(digits, "0123456789abcdef") != "" {
		return nil, none
	}
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	var found []Image
	for _, img := range list {
		if !strings.HasPrefix(Hex(img.Digest), digits) {
			continue
		}
		if len(found) > 0 && found[0].Digest != img.Digest {
			return nil, spec.Errorf(spec.ErrConflict, "%s is the beginning of several digests: %s and %s", id, found[0].Digest, img.Digest).
				WithHint("give more of it")
		}
		found = append(found, img)
	}
	if found == nil {
		return nil, none
	}
	return found, nil
}

// Touch records that a sandbox starts from an image. Only prune reads this.
func (s Shelf) Touch(digest string) {
	now := time.Now()
	_ = os.Chtimes(filepath.Join(s.RootDir(digest), aboutName), now, now)
}

// Used is the last time a sandbox started from an image, or else the time its root was built. It is zero
// if the image has no root.
func (s Shelf) Used(digest string) time.Time {
	info, err := os.Stat(filepath.Join(s.RootDir(digest), aboutName))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Root returns the root of an image, or fs.ErrNotExist if it has none.
func (s Shelf) Root(digest string) (Root, error) {
	dir := s.RootDir(digest)
	r := Root{}
	err := store.ReadJSON(filepath.Join(dir, aboutName), &r)
	if err == nil && r.Version < RootVersion {
		err = fmt.Errorf("%s is of another version: %w", dir, fs.ErrNotExist)
	}
	r.Dir = dir
	return r, err
}
