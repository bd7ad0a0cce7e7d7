package spec

import (
	"net/netip"
	"time"
)

// Kinds of network records.
const (
	NetworkLookup     = "lookup"     // of a name; only refusals are recorded
	NetworkFlow       = "flow"       // a connection: when it was refused, was opened, or has ended
	NetworkRequest    = "request"    // over HTTP, or of git over SSH, that was looked into
	NetworkSecret     = "secret"     // a secret that was lent was used
	NetworkRenewal    = "renewal"    // a login of the host that is lent was renewed, or one made inside was kept, or could not be
	NetworkPolicy     = "policy"     // other rules came into force
	NetworkSuppressed = "suppressed" // more records than could be written one by one
)

// Verdicts of network records.
const (
	VerdictAllow = "allow"
	VerdictDeny  = "deny"
	VerdictError = "error" // allowed, and then something else went wrong
)

// States of flows. One that was refused, or failed, before anything could pass has
// none.
const (
	FlowOpened = "opened" // from now on something may pass
	FlowClosed = "closed" // one that was opened has ended
)

// ProtocolSSH is the protocol of git over SSH. Its records are requests: Method is the command, or
// another kind of request, and Path the repository.
const ProtocolSSH = "ssh"

// Protocols that are always refused: a datagram, an echo (ping), and other IP packets, whose kind
// the reason gives.
const (
	ProtocolUDP  = "udp"
	ProtocolICMP = "icmp"
	ProtocolIP   = "ip"
)

// IsPacket reports whether a record is of a packet that no rule can allow.
func (r *NetworkRecord) IsPacket() bool {
	return r.Protocol == ProtocolUDP || r.Protocol == ProtocolICMP || r.Protocol == ProtocolIP
}

// DirectionIn is that of connections to published ports.
const DirectionIn = "in"

// NetworkRecord is one line of a sandbox's network log. Nothing in it is secret. The inside may
// have chosen the text of names and reasons.
type NetworkRecord struct {
	Time       time.Time  `json:"time,omitzero"`
	Event      string     `json:"event,omitempty"`
	Sandbox    string     `json:"sandbox"`
	Generation uint64     `json:"generation,omitempty"` // of the policy
	Verdict    string     `json:"verdict,omitempty"`
	State      string     `json:"state,omitempty"`     // of a flow: each that was opened has two records
	Flow       string     `json:"flow,omitempty"`      // which one, of all of the sandbox's: both records have the same
	Direction  string     `json:"direction,omitempty"` // in: to a published port; empty: out
	Name       string     `json:"name,omitempty"`
	Addr       netip.Addr `json:"addr,omitzero"` // that was dialled, or wanted; the client's, if the direction is in
	Port       uint16     `json:"port,omitempty"`
	Protocol   string     `json:"protocol,omitempty"` // tcp, tls, udp, icmp, ip; of a request HTTP/1.1, HTTP/2.0, or ssh
	Method     string     `json:"method,omitempty"`   // of a request
	Path       string     `json:"path,omitempty"`     // without the query
	User       string     `json:"user,omitempty"`     // of git over SSH: the login name, if it is not git
	RPC        string     `json:"rpc,omitempty"`      // the call in its body, where that was judged: method, or tools/call and the tool
	Status     int        `json:"status,omitempty"`   // of the answer
	Secret     string     `json:"secret,omitempty"`   // the name of the one used, or whose placeholder was refused
	Lease      string     `json:"lease,omitempty"`    // by which it was lent
	Rule       string     `json:"rule,omitempty"`
	Source     string     `json:"source,omitempty"` // of the rule
	Reason     string     `json:"reason,omitempty"`
	Suggest    string     `json:"suggest,omitempty"`    // the command that would allow it
	Guessed    bool       `json:"guessed,omitempty"`    // a port in it is the usual one, since only a name was looked up
	Body       int64      `json:"body_bytes,omitempty"` // of a request that was refused: how long its body is, or was when it had become too long
	Up         int64      `json:"up_bytes,omitempty"`   // out of the sandbox
	Down       int64      `json:"down_bytes,omitempty"`
	Duration   int64      `json:"duration_ms,omitempty"`
	// Mocked says that the sandbox's mock has answered in the place of the server.
	Mocked bool `json:"mocked,omitempty"`
	// Count says how many equal refusals followed each other, if more than one, or how many
	// connections of a kind to one destination were let through, if very many. Such a record of
	// flows is of one state, and has no Flow. Fields that could differ are left out.
	Count int64 `json:"count,omitempty"`
	// Suppressed is NetworkSuppressed's: how many.
	Suppressed int64 `json:"suppressed,omitempty"`
}

// Flow is a connection that is under way.
type Flow struct {
	Name string     `json:"name,omitempty"` // empty for a literal address
	Addr netip.Addr `json:"addr,omitzero"`
	Port uint16     `json:"port"`
	// Direction is DirectionIn for a connection to a published port; the name
	// is then empty, and the address is that of who connected.
	Direction string    `json:"direction,omitempty"`
	Began     time.Time `json:"began"`
	Up        int64     `json:"up_bytes"`
	Down      int64     `json:"down_bytes"`
}
