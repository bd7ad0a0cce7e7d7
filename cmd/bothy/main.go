// Command bothy runs programs in isolated sandboxes. The one binary plays every
// role: the command line, the keeper of a running sandbox, gVisor's own
// processes behind it, and the helpers inside. Which one is told by the name
// it was started under, before anything else happens.
//
// Only roles that need gVisor come as far as main: the helpers inside leave in
// internal/role, the command line in internal/front, who opens secrets in
// internal/seal/early, who keeps tasks in internal/task/database/early, who installs in internal/agent/install/early, who fetches
// images in internal/image/pull/early, all before gVisor's packages are initialised.
package main

import (
	"os"

	_ "github.com/bothy-dev/bothy/internal/agent/install/early"
	"github.com/bothy-dev/bothy/internal/driver/gvisor"
	_ "github.com/bothy-dev/bothy/internal/front"
	_ "github.com/bothy-dev/bothy/internal/image/pull/early"
	"github.com/bothy-dev/bothy/internal/keeper/early"
	"github.com/bothy-dev/bothy/internal/role"
	_ "github.com/bothy-dev/bothy/internal/seal/early"
	_ "github.com/bothy-dev/bothy/internal/task/database/early"
)

func main() {
	if role.OfWall(os.Args) {
		gvisor.RunChild(os.Args)
	}
	os.Exit(early.Keeper.Main(gvisor.Driver{}, plugged))
}
