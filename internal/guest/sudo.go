package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
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
	if o.help {
		fmt.Print(sudoUsage)
		return 0
	}
	if o.nothing && len(o.command) == 0 {
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
	env := sudoEnv(os.Environ(), a, o.env)
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
	user    string
	login   bool
	help    bool
	nothing bool // no password is needed, so these options do nothing
	env     []string
	command []string
}

func parseSudo(args []string) (o sudoOptions, err error) {
	o.user = "root"
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		switch {
		case a == "--":
			o.command = args
			return o, nil
		case strings.HasPrefix(a, "--"):
			args, err = o.parseLong(a, args)
		case strings.HasPrefix(a, "-") && len(a) > 1:
			args, err = o.parseShort(a[1:], args)
		case strings.Contains(a, "=") && !strings.HasPrefix(a, "/"):
			o.env = append(o.env, a)
		default:
			o.command = append([]string{a}, args...)
			return o, nil
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// parseLong parses a long option, and returns the arguments after it.
func (o *sudoOptions) parseLong(a string, args []string) ([]string, error) {
	name, value, has := strings.Cut(a, "=")
	switch name {
	case "--user":
		if !has {
			if len(args) == 0 {
				return nil, errors.New("--user needs a user")
			}
			value, args = args[0], args[1:]
		}
		o.user = value
	case "--login":
		o.login = true
	case "--help", "--version":
		o.help = true
	case "--validate", "--reset-timestamp", "--remove-timestamp":
		o.nothing = true
	case "--preserve-env", "--non-interactive", "--set-home", "--shell", "--stdin", "--background":
		// Nothing to do: no password, and the environment is kept.
	default:
		return nil, fmt.Errorf("unknown option %s", a)
	}
	return args, nil
}

// parseShort parses a group of one-letter options, and returns the arguments after it.
func (o *sudoOptions) parseShort(letters string, args []string) ([]string, error) {
	for i, c := range letters {
		switch c {
		case 'u':
			if o.user = letters[i+1:]; o.user == "" {
				if len(args) == 0 {
					return nil, errors.New("-u needs a user")
				}
				o.user, args = args[0], args[1:]
			}
			return args, nil
		case 'i':
			o.login = true
		case 'h', 'V':
			o.help = true
		case 'v', 'k', 'K':
			o.nothing = true
		case 's', 'E', 'n', 'H', 'S', 'b':
		default:
			return nil, fmt.Errorf("unknown option -%c", c)
		}
	}
	return args, nil
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

// sudoEnv returns the caller's environment with the new user's identity, without the caller's npm
// prefix for root.
func sudoEnv(env []string, as wire.Account, extra []string) []string {
	var out []string
	for _, kv := range env {
		switch k, _, _ := strings.Cut(kv, "="); {
		case slices.Contains([]string{"HOME", "USER", "LOGNAME", "SUDO_USER"}, k):
		case k == "NPM_CONFIG_PREFIX" && as.UID == 0:
		default:
			out = append(out, kv)
		}
	}
	out = append(out, "HOME="+as.Home, "USER="+as.Name, "LOGNAME="+as.Name, "SUDO_USER="+os.Getenv("USER"))
	return append(out, extra...)
}
