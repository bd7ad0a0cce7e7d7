package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/sftp"
)

// Roles that serve a connection by SSH.
const (
	ShellName = "bothy-shell" // see Shell
	SftpName  = "bothy-sftp"  // serves files over SFTP on its standard streams
	DialName  = "bothy-dial"  // see Dial
)

// Shell becomes the user's shell in the home directory, as sshd starts it: for one command, or as a login
// shell.
func Shell(args []string) int {
	if len(args) > 1 {
		fmt.Fprintln(os.Stderr, ShellName+": more than one command")
		return 2
	}
	goHome()
	shell := os.Getenv("SHELL")
	if !filepath.IsAbs(shell) {
		shell = usualShell
	}
	err := becomeShell(shell, args)
	if errors.Is(err, fs.ErrNotExist) && shell != usualShell {
		shell, err = usualShell, becomeShell(usualShell, args)
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", shell, err)
	if errors.Is(err, fs.ErrNotExist) {
		return 127
	}
	return 126
}

const usualShell = "/bin/sh"

// becomeShell returns only if the shell cannot be run.
func becomeShell(shell string, command []string) error {
	name := filepath.Base(shell)
	args := []string{"-" + name} // a login shell
	if len(command) == 1 {
		args = []string{name, "-c", command[0]}
	}
	return unix.Exec(shell, args, os.Environ())
}

// goHome makes the home directory the working directory, or the root if there is none.
func goHome() {
	if os.Chdir(os.Getenv("HOME")) != nil {
		_ = os.Chdir("/")
	}
}

// serveFiles serves files over SFTP.
func serveFiles() error {
	goHome()
	return sftp.Serve(os.Stdin, os.Stdout)
}
