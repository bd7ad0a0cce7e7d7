package spec

// Upload is the amount that a sandbox has sent by network rules with an upload limit.
type Upload struct {
	Target string `json:"target"` // of the rules
	// Bytes were sent, or written down to be: of a sandbox that runs, or whose keeper
	// died, up to a block more than were sent.
	Bytes int64 `json:"bytes"`
}

// Uploads is the document of all.
type Uploads struct {
	Version int      `json:"version"`
	Uploads []Upload `json:"uploads"`
}
