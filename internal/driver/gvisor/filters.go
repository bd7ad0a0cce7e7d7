package gvisor

import (
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	sentryfilter "gvisor.dev/gvisor/runsc/boot/filter"
	goferfilter "gvisor.dev/gvisor/runsc/fsgofer/filter"
)

// gVisor's release builds carry their seccomp filters as compiled programs; a
// build from its Go module compiles them anew in every sentry and every gofer,
// which is a tenth of a sandbox's start. filters_*.go holds the two programs
// this package's configuration needs, made by gVisor's own compiler from the
// pinned version; a test compiles them again and compares. A program that is
// not there, on another processor or for another configuration, is compiled at
// start as before.
//
// The tables they go into are not exported.

//go:linkname sentryPrograms gvisor.dev/gvisor/runsc/boot/filter.precompiledPrograms
var sentryPrograms map[string]precompiledseccomp.Program

//go:linkname goferPrograms gvisor.dev/gvisor/runsc/fsgofer/filter.precompiledPrograms
var goferPrograms map[string]precompiledseccomp.Program

// installFilters puts our compiled filters where gVisor looks for them.
func installFilters() {
	// Listing makes the tables, which would otherwise replace ours.
	sentryfilter.ListPrecompiled()
	goferfilter.ListPrecompiled()
	for _, p := range sentryFilters {
		sentryPrograms[p.Name] = p
	}
	for _, p := range goferFilters {
		goferPrograms[p.Name] = p
	}
}

// The configurations those programs are for, as gVisor spells them.
const (
	sentryFilterKey = `GOARCH="amd64" Platform="systrap" HostNetwork=false HostNetworkRawSockets=false HostFilesystem=true ProfileEnable=false Instrumentation=false NVProxy=false NVProxyCaps= TPUProxy=false RDMAProxy=false CgoEnabled=false PluginNetwork=false`
	goferFilterKey  = `GOARCH="amd64" UDSOpenEnabled=false UDSCreateEnabled=false ProfileEnabled=false DirectFS=true LisafsNeeded=false Instrumentation=false CgoEnabled=false ExtraRules=false`
)
