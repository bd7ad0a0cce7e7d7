package image

import "time"

// Argv0 is the name under which the binary fetches images. It is given
// one Order (see package helper).
const Argv0 = "bothy-image"

// Order is a task for the process that fetches images.
type Order struct {
	State string `json:"state"` // the state directory
	UID   int    `json:"uid"`   // of the owner of host files, in sandboxes
	GID   int    `json:"gid"`
	// Resolver is the content for /etc/resolv.conf.
	Resolver string `json:"resolver"`

	// Room is the number of bytes the order may add to the state directory, if there is a
	// limit.
	Room *Room `json:"room,omitempty"`

	// One of these, or of Plain, Commit and Export: a reference to pull; an archive, or a directory with an image
	// layout, to load; the digest of an image that is there, to make its root again.
	Pull  string `json:"pull,omitempty"`
	Load  string `json:"load,omitempty"`
	Build string `json:"build,omitempty"`
	// Docker is a reference to an image that the Docker of this machine has, which is asked
	// at Socket: see [DockerSocket].
	Docker string `json:"docker,omitempty"`
	Socket string `json:"socket,omitempty"`
	// Feature is a reference to a feature of development containers, to make an image of:
	// see [FeatureDir].
	Feature string `json:"feature,omitempty"`
	// Foreign: the reference comes from a file of a project, not from the user. Registries
	// of this machine and of private networks are asked for it only where the user is
	// logged in.
	Foreign bool `json:"foreign,omitempty"`
	// From is the user's name for the loaded file, if not its path.
	From string `json:"from,omitempty"`
	// Plain is the digest of an image that a build begins with, or [Scratch].
	Plain string `json:"plain,omitempty"`
	// Commit makes an image of the changes of a build.
	Commit *Commit `json:"commit,omitempty"`
	// Export writes an image, instead of fetching one.
	Export *Export `json:"export,omitempty"`
	// Name is the name for the loaded image, instead of its own.
	Name string `json:"name,omitempty"`
	// Nameless: the loaded image gets no name, even if its file names one.
	Nameless bool `json:"nameless,omitempty"`
}

// A feature of development containers is an archive in a registry. The image made of it has
// the feature's files in FeatureDir, and its metadata in FeatureLabel.
const (
	FeatureDir   = "feature"
	FeatureFile  = "devcontainer-feature.json"
	FeatureLabel = "dev.bothy.feature"
)

// Scratch is the image without a file, as Dockerfiles have it.
const Scratch = "scratch"

// Commit is an image that is to be made.
type Commit struct {
	Base   string    `json:"base"`            // the digest of the base image, as Plain made it
	Layer  string    `json:"layer,omitempty"` // the directory of the saved root layer; empty if nothing was changed
	Config []byte    `json:"config"`          // of the new image, but for its layers
	Made   time.Time `json:"made"`
	Name   string    `json:"name,omitempty"`
	// Digest is the image, if it was made already: then it only gets the name.
	Digest string `json:"digest,omitempty"`
}

// Export is an image that is to be written, or sent to a registry: one that is there,
// or a new one over it.
type Export struct {
	Digest string `json:"digest"`
	// Home, if it is set, and Layer are the directories of a saved template, whose base
	// the image is: they become a layer over it.
	Home   string    `json:"home,omitempty"`
	Layer  string    `json:"layer,omitempty"`
	Places []string  `json:"places,omitempty"` // at which others were mounted
	Made   time.Time `json:"made,omitzero"`
	// Mount is the name of an image the registry may have parts of already.
	Mount string `json:"mount,omitempty"`

	// Name is what the image is called: in the archive that To names, or, with Push, at
	// a registry.
	Name string `json:"name"`
	To   string `json:"to,omitempty"`
	Push bool   `json:"push,omitempty"`
	// Keep stores it here, without a name, instead.
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

// Result lists the images that an order made; an archive may have several. An exported
// image is not on the shelf.
type Result struct {
	Images []Image `json:"images"`
	Fresh  bool    `json:"fresh"` // something was fetched
	// Notice is a message about the result for the user.
	Notice string `json:"notice,omitempty"`
}
