// Package policy decides what a sandbox may reach. It is pure: rules, a question
// and the time go in; a decision with its reason comes out. It does no I/O, asks
// no clock and starts nothing, so it can be fuzzed, explained and asked again.
//
// A rule allows or denies a target: a host name or pattern, an address or a
// CIDR, with a port or without, and for HTTP under conditions. Rules come in
// layers (user, preset, sandbox, command, project). Deny beats allow beats
// default, whatever the layer, the order or how specific a rule is. The project
// layer comes from a repository that is not trusted: it can only narrow.
//
// [Compile] turns layers into an immutable [Policy]. [Policy.Decide] is asked at
// every stage of a flow: may this name be looked up, this connection be made,
// this resolved address be dialled, this request be sent. Doubt is a denial: a
// name, path, address or question that cannot be understood is refused.
package policy
