package guest

import (
	"os"
	"path/filepath"
)

// Main plays one of the roles inside a sandbox, if the process was started for one.
func Main(args []string) (code int, ok bool) {
	switch filepath.Base(args[0]) {
	case SudoName:
		return Sudo(args[1:]), true
	case TasksName:
		return Tasks(args[1:]), true
	case LoopName:
		return Loop(args[1:]), true
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
		return Dockerd(), true
	case DockerNamesName:
		return DockerNames(args[2:]), true
	case TrustName:
		return Trust(), true
	}
	return 0, false
}
