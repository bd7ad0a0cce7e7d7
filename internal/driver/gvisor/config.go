package gvisor

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	_ "gvisor.dev/gvisor/pkg/sentry/platform/platforms" // the keeper chooses a platform by name
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/flag"
	"gvisor.dev/gvisor/runsc/specutils"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/driver/gvisor/starter"
	"github.com/bothy-dev/bothy/spec"
)

// configure turns the settings of docs/design/security-model.md into gVisor's configuration. It uses flags,
// never a literal Config: only flags carry the defaults and reach the children.
func configure(m driver.Machine, overlayDir *os.File) (*config.Config, error) {
	// By descriptor: the flag's value is split at colons and commas, which a path may contain.
	overlay := "root:" + overlayMedium(overlayDir)
	if m.RootLimit > 0 {
		overlay += fmt.Sprintf(",size=%d", m.RootLimit)
	}
	network := "none"
	if m.Network != nil {
		network = "sandbox"
	}
	// The keeper compares everything that must be unchanged when memory is restored. gVisor also
	// compares whether a mount comes from an overlay, which makes no difference to the contents
	// of memory.
	validation := "enforce"
	if m.Memory != "" {
		validation = "warning"
	}
	fs := flag.NewFlagSet("gvisor", flag.ContinueOnError)
	config.RegisterFlags(fs)
	err := fs.Parse([]string{
		"--root=" + filepath.Join(m.Scratch, "state"),
		"--platform=" + platformName,
		"--network=" + network,
		"--directfs=true",
		"--overlay2=" + overlay,
		"--file-access=exclusive",
		"--file-access-mounts=exclusive", // except those that hints declares shared
		"--host-uds=none",
		"--host-fifo=none",
		"--character-device-policy=emulated-only",
		"--net-raw=false",
		"--allow-packet-socket-write=false",
		"--allow-suid=false",
		"--host-settings=ignore",
		"--ignore-cgroups=true",
		"--in-sandbox-cgroup=v1",
		"--restore-spec-validation=" + validation,
		"--allow-flag-override=false",
		"--sidecar-usage-policy=STRICT",
		"--gofer-network-namespace=new",
		"--panic-log=" + m.PanicLog,
	})
	if err != nil {
		return nil, fmt.Errorf("configure gvisor: %w", err)
	}
	conf, err := config.NewFromFlags(fs)
	if err != nil {
		return nil, fmt.Errorf("configure gvisor: %w", err)
	}
	return conf, nil
}

// overlayFD is the lowest number for the descriptor of the writable layer's directory. The number is
// part of the data that gVisor compares when memory is restored, so it must be the same in
// every keeper.
const overlayFD = 200

func openOverlay(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, overlayFD)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir), nil
}

func sameAs(path string, info os.FileInfo) bool {
	other, err := os.Stat(path)
	return err == nil && os.SameFile(other, info)
}

// overlayMedium names the directory for the data of the writable layer.
func overlayMedium(dir *os.File) string { return fmt.Sprintf("dir=/proc/self/fd/%d", dir.Fd()) }

// pinSidecars makes gVisor look for its programs only in a private directory: this program as the
// sentry, and the program that prepares it. By default gVisor would execute the files of
// gvisor-bin next to the program, or from the directory in an environment variable.
func pinSidecars(scratch, prepares string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if now, err := os.Stat(self); err != nil || !sameAs("/proc/self/exe", now) {
		return spec.Errorf(spec.ErrConflict, "%s is another file by now", self).
			WithHint("bothy was replaced while it started; run the command again")
	}
	prepares = cmp.Or(prepares, self)
	dir := filepath.Join(scratch, "bin")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for name, path := range map[string]string{starter.SentryProgram: self, starter.Prewarmer: prepares} {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	specutils.ExePath = prepares
	if err := os.Unsetenv("GVISOR_ENFORCE_RELEASE"); err != nil {
		return err
	}
	return os.Setenv(starter.SidecarsVar, dir)
}
