package spec

// Upload is the amount that a sandbox has sent by network rules with an upload limit.
type Upload struct {
	Target string `json:"target"` // of the rules
	// Bytes were sent, or recorded to be sent. For a running sandbox, or one whose keeper died, they may
	// be up to a block more than were sent.
	Bytes int64 `json:"bytes"`
}

// Uploads is the document with all uploads.
type Uploads struct {
	Version int      `json:"version"`
	Uploads []Upload `json:"uploads"`
}
