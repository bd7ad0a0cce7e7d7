// Package policy decides what a sandbox may reach. It is pure: it takes rules, a question and the time,
// and returns a decision with its reason. It does no I/O, reads no clock and starts nothing. So it can
// be fuzzed, explained and asked again.
//
// A rule allows or denies a target: a host name or pattern, an address or a CIDR, with a port or
// without, and for HTTP under conditions. Rules come in layers (user, preset, sandbox, command,
// project). Deny beats allow beats default, whatever the layer, the order or how specific a rule is. The
// project layer comes from a repository that is not trusted: it can only narrow.
//
// [Compile] turns layers into an immutable [Policy]. [Policy.Decide] is asked at every stage of a flow:
// whether a name may be looked up, a connection made, a resolved address dialled, a request sent. Doubt
// is a denial: a name, path, address or question that cannot be understood is refused.
package policy
