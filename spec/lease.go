package spec

import (
	"encoding/base64"
	"strings"
	"time"
)

// Lease lends a secret to one sandbox: for which requests from the inside the gateway may use it, how,
// and how long. The inside holds a placeholder.
type Lease struct {
	ID      string `json:"id"`
	Secret  string `json:"secret"`  // its name
	Sandbox string `json:"sandbox"` // the ID of the sandbox that it is lent to
	// Hosts are targets as in rules of the network policy. Methods and Paths restrict the requests in
	// the same way; empty is any. With PlaceAgent, Hosts is empty: the agent may log in wherever the
	// policy lets the sandbox connect. With PlaceSignature it is empty too, because that is not for
	// logging in.
	Hosts   []string `json:"hosts"`
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	Place   Place    `json:"place"`
	// Placeholder stands for the value inside. It has the form that programs expect, and is different
	// for every lease.
	Placeholder string `json:"placeholder"`
	// Renewal is the placeholder of a login's refresh token, whose value never goes inside. A
	// program that renews with it is given Placeholder again.
	Renewal string   `json:"renewal,omitempty"`
	Env     []string `json:"env,omitempty"` // variables inside that hold the placeholder
	// Tool is the program of the host whose token is lent; empty for other secrets. Settings announce
	// the lease to programs inside.
	Tool     string    `json:"tool,omitempty"`
	Settings []Setting `json:"settings,omitempty"`
	// Captured is the agent that logged in inside. Empty: the secret comes from the host. A captured
	// secret is not in the vault: it belongs to this sandbox, and is deleted with the lease.
	Captured string    `json:"captured,omitempty"`
	Until    time.Time `json:"until,omitzero"`
}

// Setting announces a lease to a program inside, in a place where that program looks.
type Setting struct {
	Kind SettingKind `json:"kind"`
	Name string      `json:"name,omitempty"` // name of the variable, or the key of git's configuration
	// Text is the value, or the line. {placeholder} in it stands for the lease's placeholder,
	// {placeholder:base64} for that in base64.
	Text string `json:"text"`
}

// SettingKind is a place where programs look.
type SettingKind string

// Kinds of settings.
const (
	// SettingVariable is a word of an environment variable. The words of several leases are separated by
	// spaces.
	SettingVariable SettingKind = "variable"
	SettingGit      SettingKind = "git" // git's configuration
	SettingNpm      SettingKind = "npm" // a line of ~/.npmrc
)

// Filled returns the text of a setting with the placeholder in it.
func (l *Lease) Filled(s Setting) string {
	return strings.NewReplacer("{placeholder}", l.Placeholder,
		"{placeholder:base64}", base64.StdEncoding.EncodeToString([]byte(l.Placeholder))).Replace(s.Text)
}

// Unlent is a lease that has not ended but has no effect: its value could not be obtained when the
// sandbox started, or could not be lent.
type Unlent struct {
	Lease  string `json:"lease,omitempty"`  // its ID; empty if not even the leases could be read
	Secret string `json:"secret,omitempty"` // its name
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"` // what to do
}

// Live reports whether the lease is valid at a time.
func (l *Lease) Live(now time.Time) bool { return l.Until.IsZero() || now.Before(l.Until) }
