package gvisor

import (
	"fmt"
	"os"
	"path/filepath"

	_ "gvisor.dev/gvisor/pkg/sentry/platform/platforms" // the keeper chooses a platform by name
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/flag"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/role"
)

// configure turns the posture of docs/security-model.md into gVisor's
// configuration. Flags are used, never a literal Config: only flags carry the
// defaults and reach the children.
func configure(m driver.Machine, overlayDir *os.File) (*config.Config, error) {
	// By descriptor: the flag's value is split at colons and commas, which a
	// path may have.
	overlay := "root:" + overlayMedium(overlayDir)
	if m.RootLimit > 0 {
		overlay += fmt.Sprintf(",size=%d", m.RootLimit)
	}
	network := "none"
	if m.Network != nil {
		network = "sandbox"
	}
	fs := flag.NewFlagSet("gvisor", flag.ContinueOnError)
	config.RegisterFlags(fs)
	err := fs.Parse([]string{
		"--root=" + filepath.Join(m.Scratch, "state"),
		"--platform=systrap",
		"--network=" + network,
		"--directfs=true",
		"--overlay2=" + overlay,
		"--file-access=exclusive",
		"--file-access-mounts=exclusive", // but for those hints names shared
		"--host-uds=none",
		"--host-fifo=none",
		"--character-device-policy=emulated-only",
		"--net-raw=false",
		"--allow-packet-socket-write=false",
		"--allow-suid=false",
		"--host-settings=ignore",
		"--ignore-cgroups=true",
		"--in-sandbox-cgroup=v1",
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

// overlayMedium says where the data of the writable layer lies.
func overlayMedium(dir *os.File) string { return fmt.Sprintf("dir=/proc/self/fd/%d", dir.Fd()) }

// pinSidecars makes gVisor find its programs, all of them this binary, in a
// private directory and nowhere else: by default it would execute what lies in
// gvisor-bin beside the binary, or where an environment variable points.
func pinSidecars(scratch string) error {
	dir := filepath.Join(scratch, "bin")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, name := range []string{sentryName, role.Prewarmer} {
		if err := os.Symlink("/proc/self/exe", filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := os.Unsetenv("GVISOR_ENFORCE_RELEASE"); err != nil {
		return err
	}
	return os.Setenv("GVISOR_SIDECAR_BINARIES_DIR", dir)
}
