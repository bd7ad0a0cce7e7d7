// Command bothy-build understands Dockerfiles for bothy, whose program is in the same directory. On the
// host it makes a plan from a Dockerfile; inside a sandbox it runs one step of the plan. It is not for
// people, who use bothy template build.
package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/bothy-dev/bothy/internal/build"
	"github.com/bothy-dev/bothy/internal/build/plan"
	"github.com/bothy-dev/bothy/internal/build/step"
	"github.com/bothy-dev/bothy/internal/helper"
	"github.com/bothy-dev/bothy/spec"
)

func main() {
	roles := []string{build.RoleReceive, build.RoleSend, build.RoleStore, build.RoleDo, build.RoleClean, build.RoleEnter}
	switch {
	case os.Args[0] == build.Argv0:
		os.Exit(helper.Run(os.Stdin, os.Stdout, plan.Run))
	case len(os.Args) > 1 && slices.Contains(roles, os.Args[1]):
		os.Exit(step.Main(os.Args[1], os.Args[2:]))
	}
	fmt.Fprintln(os.Stderr, build.Program+": bothy starts this; to build an image: bothy template build DIRECTORY")
	os.Exit(spec.ExitUsage)
}
