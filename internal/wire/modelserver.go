package wire

// ModelServer is the server of models that a sandbox was made for, as its gateway sees it.
type ModelServer struct {
	At string `json:"at"` // as the inside calls it, HOST:PORT
	// Named is what it is called in requests, where it is a port of the host.
	Named string `json:"named,omitempty"`
}
