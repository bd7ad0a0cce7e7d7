package spec

import (
	"net/netip"
	"time"
)

// Kinds of network records.
const (
	NetworkLookup     = "lookup"     // of a name; only refusals are recorded
	NetworkFlow       = "flow"       // a connection: it was refused, was opened, or has ended
	NetworkRequest    = "request"    // an inspected request: over HTTP, or of git over SSH
	NetworkSecret     = "secret"     // a lent secret was used
	NetworkRenewal    = "renewal"    // a lent login of the host was renewed, or a login inside was kept; or this failed
	NetworkPolicy     = "policy"     // other rules took effect
	NetworkSuppressed = "suppressed" // there were more records than could be written one by one
)

// Verdicts of network records.
const (
	VerdictAllow = "allow"
	VerdictDeny  = "deny"
	VerdictError = "error" // allowed, and failed afterwards
)

// States of flows. A flow that was refused, or failed, before it could carry data has none.
const (
	FlowOpened = "opened" // from now on it may carry data
	FlowClosed = "closed" // an opened flow has ended
)

// ProtocolSSH is the protocol of git over SSH. Its records are requests: Method is the command, or
// another kind of request, and Path the repository.
const ProtocolSSH = "ssh"

// Protocols that are always refused: a datagram, an echo (ping), and other IP packets. The reason of the
// record names the kind of such a packet.
const (
	ProtocolUDP  = "udp"
	ProtocolICMP = "icmp"
	ProtocolIP   = "ip"
)

// IsPacket reports whether the record is about a packet that no rule can allow.
func (r *NetworkRecord) IsPacket() bool {
	return r.Protocol == ProtocolUDP || r.Protocol == ProtocolICMP || r.Protocol == ProtocolIP
}

// DirectionIn is the direction of connections to published ports.
const DirectionIn = "in"

// NetworkRecord is one line of a sandbox's network log. Nothing in it is secret. The inside may
// have chosen the text of names and reasons.
type NetworkRecord struct {
	Time       time.Time  `json:"time,omitzero"`
	Event      string     `json:"event,omitempty"`
	Sandbox    string     `json:"sandbox"`
	Generation uint64     `json:"generation,omitempty"` // of the policy
	Verdict    string     `json:"verdict,omitempty"`
	State      string     `json:"state,omitempty"`     // of a flow: each opened flow has two records
	Flow       string     `json:"flow,omitempty"`      // unique ID of the flow in the sandbox: both records have the same
	Direction  string     `json:"direction,omitempty"` // in: to a published port; empty: out
	Name       string     `json:"name,omitempty"`
	Addr       netip.Addr `json:"addr,omitzero"` // the address dialled or requested; for DirectionIn, the client's
	Port       uint16     `json:"port,omitempty"`
	Protocol   string     `json:"protocol,omitempty"` // tcp, tls, udp, icmp, ip; of a request HTTP/1.1, HTTP/2.0, or ssh
	Method     string     `json:"method,omitempty"`   // of a request
	Path       string     `json:"path,omitempty"`     // without the query
	User       string     `json:"user,omitempty"`     // of git over SSH: the login name, unless it is git
	RPC        string     `json:"rpc,omitempty"`      // the inspected call in its body: method, or tools/call and the tool
	Status     int        `json:"status,omitempty"`   // of the answer
	Secret     string     `json:"secret,omitempty"`   // name of the secret used, or whose placeholder was refused
	Lease      string     `json:"lease,omitempty"`    // the lease of that secret
	Rule       string     `json:"rule,omitempty"`
	Source     string     `json:"source,omitempty"` // of the rule
	Reason     string     `json:"reason,omitempty"`
	Suggest    string     `json:"suggest,omitempty"`    // the command that would allow it
	Guessed    bool       `json:"guessed,omitempty"`    // a port in it is the default one, because only a name was looked up
	Body       int64      `json:"body_bytes,omitempty"` // of a refused request: the length of its body, or the length at which it became too long
	Up         int64      `json:"up_bytes,omitempty"`   // out of the sandbox
	Down       int64      `json:"down_bytes,omitempty"`
	Duration   int64      `json:"duration_ms,omitempty"`
	// Mocked says that the sandbox's mock answered in place of the server.
	Mocked bool `json:"mocked,omitempty"`
	// Count is the number of equal refusals in a row, if more than one, or the number of connections of
	// one kind to one destination that were allowed, if very many. Such a record of flows has one state,
	// and no Flow. Fields that could differ are left out.
	Count int64 `json:"count,omitempty"`
	// Suppressed is the number of records that a NetworkSuppressed record stands for.
	Suppressed int64 `json:"suppressed,omitempty"`
}

// Flow is an open connection.
type Flow struct {
	Name string     `json:"name,omitempty"` // empty for a literal address
	Addr netip.Addr `json:"addr,omitzero"`
	Port uint16     `json:"port"`
	// Direction is DirectionIn for a connection to a published port; then the name is empty, and the
	// address is the client's.
	Direction string    `json:"direction,omitempty"`
	Began     time.Time `json:"began"`
	Up        int64     `json:"up_bytes"`
	Down      int64     `json:"down_bytes"`
}
