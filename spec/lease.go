package spec

import "time"

// Lease lends a secret to one sandbox: where the gateway may use it for what
// the inside asks for, how, and how long. The inside holds a placeholder.
type Lease struct {
	ID      string `json:"id"`
	Secret  string `json:"secret"`  // its name
	Sandbox string `json:"sandbox"` // the ID of whom it is lent to
	// Hosts are targets as in rules of the network policy. Methods and Paths
	// restrict the requests as there; empty is any.
	Hosts   []string `json:"hosts"`
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	Place   Place    `json:"place"`
	// Placeholder stands for the value inside. It has the shape that programs
	// expect of it, and is different for every lease.
	Placeholder string `json:"placeholder"`
	// Renewal stands inside for what gets a login's next value, which nobody gets
	// there: whoever asks for one with it is given Placeholder again.
	Renewal string    `json:"renewal,omitempty"`
	Env     []string  `json:"env,omitempty"` // variables inside that hold the placeholder
	Until   time.Time `json:"until,omitzero"`
}

// Unlent is a lease that has no effect although it has not ended: its value could
// not be had when the sandbox started, or could not be lent.
type Unlent struct {
	Lease  string `json:"lease,omitempty"`  // its ID; empty if not even the leases could be read
	Secret string `json:"secret,omitempty"` // its name
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"` // what to do
}

// Live tells whether the lease counts at a time.
func (l *Lease) Live(now time.Time) bool { return l.Until.IsZero() || now.Before(l.Until) }
