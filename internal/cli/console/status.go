package console

import (
	"encoding/json"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// NoStatus is the descriptor of a caller that wants no separate status.
const NoStatus = -1

// OpenStatus makes the console write notes, errors and the exit code to a descriptor, apart from the
// output of the program inside.
func (c *Console) OpenStatus(fd int) error {
	if fd == NoStatus {
		return nil
	}
	how, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if fd < 3 || err != nil || how&unix.O_ACCMODE == unix.O_RDONLY {
		return spec.Errorf(spec.ErrUsage, "--status-fd %d: no descriptor that was opened for this", fd).
			WithHint("give one from 3 on that can be written to, as in 3>status")
	}
	unix.CloseOnExec(fd)
	c.status = os.NewFile(uintptr(fd), "status")
	return nil
}

// tellStatus writes to the status descriptor. It returns false if the caller opened none.
func (c *Console) tellStatus(what map[string]any) bool {
	if c.status == nil {
		return false
	}
	_ = json.NewEncoder(c.status).Encode(what) // a reader that closed it does not want to know
	return true
}
