package policy

import (
	"encoding/json"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/document"
)

// writtenBlock is the form of a block in files and on the wire.
type writtenBlock struct {
	Default string        `json:"default,omitempty"`
	Inspect string        `json:"inspect,omitempty"`
	Presets []string      `json:"presets,omitempty"`
	Allow   []WrittenRule `json:"allow,omitempty"`
	Deny    []WrittenRule `json:"deny,omitempty"`
}

// WrittenRule has the keys of a rule in the order in which they are written.
type WrittenRule struct {
	Host        string            `json:"host"`
	Methods     []string          `json:"methods,omitempty"`
	Paths       []string          `json:"paths,omitempty"`
	Query       []string          `json:"query,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	RPC         []string          `json:"rpc,omitempty"`
	MaxBody     string            `json:"max_body,omitempty"`
	WebSocket   bool              `json:"websocket,omitempty"`
	MaxUpload   string            `json:"max_upload,omitempty"`
	Git         []string          `json:"git,omitempty"`
	Push        bool              `json:"push,omitempty"`
	User        string            `json:"user,omitempty"`
	Inspect     bool              `json:"inspect,omitempty"`
	Passthrough bool              `json:"passthrough,omitempty"`
	Until       string            `json:"until,omitempty"`
	Why         string            `json:"why,omitempty"`
}

func (b *Block) written() writtenBlock {
	d := writtenBlock{Default: b.Default.String(), Presets: b.Presets}
	if b.InspectAll {
		d.Inspect = "all"
	}
	for i := range b.Allow {
		d.Allow = append(d.Allow, b.Allow[i].Written())
	}
	for i := range b.Deny {
		d.Deny = append(d.Deny, b.Deny[i].Written())
	}
	return d
}

func (r *Rule) Written() WrittenRule {
	d := WrittenRule{
		Host: r.Text, Methods: r.HTTP.Methods, Paths: r.HTTP.Paths, Query: r.HTTP.Queries, Headers: r.HTTP.Headers, RPC: r.HTTP.RPC,
		WebSocket: r.HTTP.WebSocket, Git: r.HTTP.Git, Push: r.HTTP.Push, User: r.HTTP.User, Inspect: r.Inspect, Passthrough: r.Passthrough, Why: r.Why,
	}
	if d.Host == "" {
		d.Host = r.Target.String()
	}
	if r.HTTP.MaxBody > 0 {
		d.MaxBody = sizeText(r.HTTP.MaxBody)
	}
	if r.MaxUpload > 0 {
		d.MaxUpload = sizeText(r.MaxUpload)
	}
	if !r.Until.IsZero() {
		d.Until = r.Until.UTC().Format(time.RFC3339)
	}
	return d
}

// MarshalJSON writes the block with the keys of a policy file, to pass it to another process. The zero
// block is {}.
func (b Block) MarshalJSON() ([]byte, error) { return json.Marshal(b.written()) }

// UnmarshalJSON reads the output of MarshalJSON, as strictly as a file is read.
func (b *Block) UnmarshalJSON(data []byte) error {
	n, err := document.ParseJSON(data)
	if err != nil {
		return err
	}
	var read Block
	if len(n.Keys) > 0 || n.Kind != document.Map { // the zero block is {}
		if read, err = ReadBlock(n, "the policy"); err != nil {
			return err
		}
	}
	*b = read
	return nil
}
