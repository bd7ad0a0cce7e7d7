package wire

// ModelServer is the model server that a sandbox was made for, as its gateway sees it.
type ModelServer struct {
	At string `json:"at"` // its address inside, HOST:PORT
	// Named is its name in requests, if it is a port of the host.
	Named string `json:"named,omitempty"`
}
