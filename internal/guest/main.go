package guest

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/wire"
)

// Main plays one of the roles inside a sandbox, if the process was started for one.
func Main(args []string) (code int, ok bool) {
	switch filepath.Base(args[0]) {
	case SudoName:
		return Sudo(args[1:]), true
	case TasksName:
		return askGateway(TasksName+": ask for the tasks of this project", wire.TasksHost, args[1:]), true
	case LoopName:
		return askGateway(LoopName+": ask for the state of the loop", wire.LoopHost, args[1:]), true
	case RuncName:
		return Runc(args[1:]), true
	case IptablesName, IP6tablesName:
		return Iptables(args[1:]), true
	}
	if args[0] != Path || len(args) < 2 {
		return 0, false
	}
	switch args[1] {
	case InitName:
		if os.Getpid() != 1 {
			return 2, true
		}
		return Init(args[2:]), true
	case CopyName:
		return Copy(args[2:]), true
	case DockerdName:
		return reportError("bothy: start dockerd", becomeDockerd()), true
	case DockerNamesName:
		return DockerNames(args[2:]), true
	case ShellName:
		return Shell(args[2:]), true
	case SftpName:
		return reportError(SftpName, serveFiles()), true
	case DialName:
		return Dial(args[2:]), true
	case TrustName:
		return reportError("bothy", renewTrust("/")), true
	}
	return 0, false
}

func reportError(what string, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
	return 1
}
