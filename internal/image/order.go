package image

import "time"

// Argv0 is the name under which the binary fetches images. It gets one Order (see package helper).
const Argv0 = "bothy-image"

// Order is a task for the process that fetches images.
type Order struct {
	State string `json:"state"` // the state directory
	UID   int    `json:"uid"`   // of the owner of host files, in sandboxes
	GID   int    `json:"gid"`
	// Resolver is the content for /etc/resolv.conf.
	Resolver string `json:"resolver"`

	// Room is the number of bytes that the order may add to the state directory; nil means unlimited.
	Room *Room `json:"room,omitempty"`

	// Set one of these, or one of Plain, Commit and Export. Pull is a reference to pull. Load is an
	// archive, or a directory with an image layout. Build is the digest of a local image whose root is to
	// be rebuilt.
	Pull  string `json:"pull,omitempty"`
	Load  string `json:"load,omitempty"`
	Build string `json:"build,omitempty"`
	// Docker is a reference to an image that this machine's Docker has. Socket is its socket: see
	// [DockerSocket].
	Docker string `json:"docker,omitempty"`
	Socket string `json:"socket,omitempty"`
	// Feature is a reference to a feature of development containers from which to make an image: see
	// [FeatureDir].
	Feature string `json:"feature,omitempty"`
	// Foreign is set if the reference comes from a file of a project, not from the user. Then registries
	// of this machine and of private networks are used only if the user is logged in there.
	Foreign bool `json:"foreign,omitempty"`
	// From is the user's name for the loaded file, if not its path.
	From string `json:"from,omitempty"`
	// Plain is the digest of the base image of a build, or [Scratch].
	Plain string `json:"plain,omitempty"`
	// Commit makes an image from the changes of a build.
	Commit *Commit `json:"commit,omitempty"`
	// Export writes an image, instead of fetching one.
	Export *Export `json:"export,omitempty"`
	// Name is the name for the loaded image, instead of its own.
	Name string `json:"name,omitempty"`
	// Nameless stores the loaded image without a name, even if its file has one.
	Nameless bool `json:"nameless,omitempty"`
}

// A feature of development containers is an archive in a registry. The image made from it has the
// feature's files in FeatureDir, and its metadata in FeatureLabel.
const (
	FeatureDir   = "feature"
	FeatureFile  = "devcontainer-feature.json"
	FeatureLabel = "dev.bothy.feature"
)

// Scratch is the empty image, as in Dockerfiles.
const Scratch = "scratch"

// Commit is an image to make.
type Commit struct {
	Base   string    `json:"base"`            // the digest of the base image, as Plain made it
	Layer  string    `json:"layer,omitempty"` // the directory of the saved root layer; empty if nothing was changed
	Config []byte    `json:"config"`          // of the new image, without its layers
	Made   time.Time `json:"made"`
	Name   string    `json:"name,omitempty"`
	// Digest is the digest of an image that exists already and only gets the name.
	Digest string `json:"digest,omitempty"`
}

// Export is an image to write to an archive or to push to a registry: an existing one, or a new one over
// it.
type Export struct {
	Digest string `json:"digest"`
	// Home (unless empty) and Layer are the directories of a saved template that was made from the
	// image. They become a layer over it.
	Home   string    `json:"home,omitempty"`
	Layer  string    `json:"layer,omitempty"`
	Places []string  `json:"places,omitempty"` // mount points
	Made   time.Time `json:"made,omitzero"`
	// Mount is the name of an image of which the registry may have parts already.
	Mount string `json:"mount,omitempty"`

	// Name is the image's name in the archive To, or at a registry with Push.
	Name string `json:"name"`
	To   string `json:"to,omitempty"`
	Push bool   `json:"push,omitempty"`
	// Keep stores the image locally, without a name, instead.
	Keep bool `json:"keep,omitempty"`
}

// Phase is the current step of an order.
type Phase string

// Phases of a pull.
const (
	Waiting     Phase = "waiting for another one"
	Resolving   Phase = "asking the registry"
	Downloading Phase = "downloading"
	Reading     Phase = "reading"
	Unpacking   Phase = "unpacking"
	Packing     Phase = "packing"
	Writing     Phase = "writing"
	Uploading   Phase = "uploading"
)

// Event reports the progress of an order.
type Event struct {
	Phase Phase  `json:"phase"`
	Name  string `json:"name,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	Total int64  `json:"total,omitempty"`
}

// Result lists the images that an order made; an archive may have several. An exported image is not on
// the shelf.
type Result struct {
	Images []Image `json:"images"`
	Fresh  bool    `json:"fresh"` // something was fetched
	// Notice is a message about the result for the user.
	Notice string `json:"notice,omitempty"`
}
