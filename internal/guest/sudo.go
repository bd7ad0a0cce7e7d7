package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const sudoUsage = `usage: sudo [-E] [-n] [-u USER] [-i | -s | COMMAND [ARG...]]
Runs a command as root of this sandbox. No password is asked for: the wall is
around the sandbox, not around its root.
`

// Sudo runs a command as another user of the sandbox, root by default. It
// needs no set-uid file: sessions keep the capability to change their ids.
func Sudo(args []string) int {
	o, err := parseSudo(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "sudo: %v\n%s", err, sudoUsage)
		return 2
	}
	if o.done {
		fmt.Print(sudoUsage)
		return 0
	}
	a, err := findAccount(o.user)
	if err != nil {
		fmt.Fprintf(os.Stderr, "sudo: %v\n", err)
		return 1
	}
	if err := become(a.UID, a.GID, a.Groups); err != nil {
		fmt.Fprintf(os.Stderr, "sudo: become %s: %v (does this session keep CAP_SETUID?)\n", a.Name, err)
		return 1
	}
	argv := o.command
	if len(argv) == 0 {
		argv = []string{a.Shell}
		if o.login {
			argv = append(argv, "-l")
		}
	}
	env := sudoEnv(os.Environ(), a.Name, a.Home, o.env)
	if o.login {
		_ = os.Chdir(a.Home)
	}
	dir, _ := os.Getwd()
	path, err := lookPath(argv[0], env, dir)
	if err == nil {
		err = unix.Exec(path, argv, env)
	}
	fmt.Fprintf(os.Stderr, "sudo: %s: %v\n", argv[0], err)
	if errors.Is(err, fs.ErrPermission) {
		return 126
	}
	return 127
}

type sudoOptions struct {
	user        string
	login, done bool
	env         []string
	command     []string
}

func parseSudo(args []string) (sudoOptions, error) {
	o := sudoOptions{user: "root"}
	for len(args) > 0 {
		a := args[0]
		switch {
		case a == "--":
			o.command = args[1:]
			return o, nil
		case a == "-u" || a == "--user":
			if len(args) < 2 {
				return o, errors.New("-u needs a user")
			}
			o.user, args = args[1], args[1:]
		case strings.HasPrefix(a, "-u"):
			o.user = a[2:]
		case strings.HasPrefix(a, "--user="):
			o.user = a[len("--user="):]
		case a == "-i" || a == "--login":
			o.login = true
		case a == "-h" || a == "--help" || a == "-V":
			o.done = true
		case a == "-s", a == "-E", a == "-n", a == "-H", a == "-S", a == "-k", a == "-v", a == "-b",
			a == "--preserve-env", a == "--non-interactive", strings.HasPrefix(a, "--preserve-env="):
			// Nothing to do: no password, and the environment is kept.
		case strings.HasPrefix(a, "-") && len(a) > 1:
			return o, fmt.Errorf("unknown option %s", a)
		case strings.Contains(a, "=") && !strings.HasPrefix(a, "/"):
			o.env = append(o.env, a)
		default:
			o.command = args
			return o, nil
		}
		args = args[1:]
	}
	return o, nil
}

// become changes all ids of the process.
func become(uid, gid int, groups []int) error {
	if err := unix.Setgroups(groups); err != nil {
		return err
	}
	if err := unix.Setresgid(gid, gid, gid); err != nil {
		return err
	}
	return unix.Setresuid(uid, uid, uid)
}

func sudoEnv(env []string, user, home string, extra []string) []string {
	var out []string
	for _, kv := range env {
		switch k, _, _ := strings.Cut(kv, "="); k {
		case "HOME", "USER", "LOGNAME", "SUDO_USER":
		default:
			out = append(out, kv)
		}
	}
	out = append(out, "HOME="+home, "USER="+user, "LOGNAME="+user, "SUDO_USER="+os.Getenv("USER"))
	return append(out, extra...)
}
