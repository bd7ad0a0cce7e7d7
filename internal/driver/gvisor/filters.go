package gvisor

import (
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	sentryfilter "gvisor.dev/gvisor/runsc/boot/filter"
	goferfilter "gvisor.dev/gvisor/runsc/fsgofer/filter"
)

// gVisor's release builds contain their seccomp filters as compiled programs. A build from its Go module
// compiles them anew in every sentry and every gofer, which is a tenth of a sandbox's start.
// filters_*.go contains the two programs for this package's configuration, made by gVisor's own compiler
// from the pinned version; a test compiles them again and compares. If a program is missing, on another
// processor or for another configuration, it is compiled at the start as before. The tables for these
// programs are not exported.

//go:linkname sentryPrograms gvisor.dev/gvisor/runsc/boot/filter.precompiledPrograms
var sentryPrograms map[string]precompiledseccomp.Program

//go:linkname goferPrograms gvisor.dev/gvisor/runsc/fsgofer/filter.precompiledPrograms
var goferPrograms map[string]precompiledseccomp.Program

// installFilters puts our compiled filters into gVisor's tables.
func installFilters() {
	// Listing creates the tables, which would otherwise replace ours.
	sentryfilter.ListPrecompiled()
	goferfilter.ListPrecompiled()
	for _, p := range sentryFilters {
		sentryPrograms[p.Name] = p
	}
	for _, p := range goferFilters {
		goferPrograms[p.Name] = p
	}
}

// The configurations of those programs, as gVisor spells them.
const (
	sentryFilterKey = `GOARCH="amd64" Platform="systrap" HostNetwork=false HostNetworkRawSockets=false HostFilesystem=true ProfileEnable=false Instrumentation=false NVProxy=false NVProxyCaps= TPUProxy=false RDMAProxy=false CgoEnabled=false PluginNetwork=false`
	goferFilterKey  = `GOARCH="amd64" UDSOpenEnabled=false UDSCreateEnabled=false ProfileEnabled=false DirectFS=true LisafsNeeded=false Instrumentation=false CgoEnabled=false ExtraRules=false`
)
