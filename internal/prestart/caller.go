package prestart

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/bothy-dev/bothy/internal/passwd"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/workspace"
)

// CallerHome returns the home of the caller inside.
func CallerHome() string { return caller().home }

// person is the caller as programs inside see them.
type person struct{ name, home, shell string }

// caller returns the person behind this process. The host's root has no special account inside.
func caller() person {
	p := person{name: "agent", home: "/home/agent", shell: "/bin/sh"}
	shell := os.Getenv("SHELL")
	if os.Geteuid() != 0 {
		if home, err := store.Home(); err == nil && home != "/" {
			p.home = mountable(home)
		}
		name, account := findAccount(os.Geteuid())
		if name != "" && name != "root" {
			p.name = name
		}
		if shell == "" {
			shell = account
		}
	}
	for _, s := range []string{shell, "/bin/bash"} {
		if usable(s) {
			p.shell = s
			break
		}
	}
	return p
}

// mountable returns the path of the home inside: its own path, unless the kernel or the template uses
// that.
func mountable(home string) string {
	home = filepath.Clean(home)
	if home == "/tmp" || home == "/run" {
		return "/home/user" // those are mounts of their own
	}
	for _, taken := range []string{"/proc", "/sys", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/.bothy"} {
		if workspace.Within(taken, home) {
			return "/home/user"
		}
	}
	return home
}

// usable reports whether a shell is one of the programs that a sandbox gets too.
func usable(shell string) bool {
	if !strings.HasPrefix(shell, "/bin/") && !strings.HasPrefix(shell, "/usr/bin/") {
		return false
	}
	base := filepath.Base(shell)
	info, err := os.Stat(shell)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && base != "nologin" && base != "false"
}

func findAccount(uid int) (name, shell string) {
	accounts, _ := passwd.Read()
	for _, a := range accounts {
		if a.UID == uid {
			return a.Name, a.Shell
		}
	}
	return "", ""
}
