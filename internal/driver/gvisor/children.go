// Package gvisor builds sandboxes on gVisor, used in process: a user-space kernel (the sentry) and
// a file server (the gofer). Both are children of the keeper and run its program again. Only
// this package may import gVisor's runsc.
package gvisor

import (
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"
	"gvisor.dev/gvisor/runsc/specutils"

	"github.com/bothy-dev/bothy/internal/driver/gvisor/starter"
)

// RunChild runs in the role that gVisor asks for. It does not return.
func RunChild(args []string) {
	if strings.HasPrefix(args[0], starter.Probe) {
		select {} // a user namespace probe: its parent kills it at once
	}
	quietLog()
	if args[0] == starter.Sentry {
		unix.CloseOnExec(starter.SelfFD)
		specutils.ExePath = starter.SelfPath
		var err error
		if os.Args, err = addLimits(os.Args); err != nil {
			util.Fatalf("show the limits: %v", err)
		}
		if err := keepHostRules(); err != nil {
			util.Fatalf("keep the rules for calls to the host: %v", err)
		}
		readCPUID()
		noTracePoints()
		clockEarly()
		seekTerminalsAsLinux()
		openFifosAsLinux()
		closeUnusedFiles()
		passHostEvents()
		signalBrokenPipes()
		continueOrphans()
		if err := mapInUnits(); err != nil {
			util.Fatalf("map memory by units: %v", err)
		}
	}
	installFilters()
	collectLater()
	cli.Run(nil, map[util.SubCommand]string{
		new(sentrycmd.Boot):   "internal",
		new(cmd.Gofer):        "internal",
		new(sentrycmd.Umount): "internal",
	}, nil)
}

// quietLog keeps gVisor from formatting log messages, as no log exists.
func quietLog() { log.SetLevel(log.Warning) }

// A starting sentry keeps nearly everything that it allocates, so garbage collection would only cost
// time: a tenth of a start. The collection happens a little later.
const (
	startGCPercent = 800 // the first collection at 32 MB instead of 4
	collectAfter   = 2 * time.Second
)

func collectLater() {
	usual := debug.SetGCPercent(startGCPercent)
	time.AfterFunc(collectAfter, func() {
		debug.SetGCPercent(usual)
		debug.FreeOSMemory()
	})
}
