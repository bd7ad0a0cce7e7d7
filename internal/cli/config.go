package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/hostcreds"
	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// config is the user's config.yaml. An unknown key is an error: a misspelt limit must not go
// unnoticed.
type config struct {
	IdleTimeout *spec.Duration `yaml:"idle_timeout"` // default 30m; 0 never stops
	DetachKeys  *string        `yaml:"detach_keys"`  // default ctrl-\,ctrl-\
	Title       *bool          `yaml:"title"`        // of the terminal while it is attached; default true
	Bell        string         `yaml:"bell"`         // when an agent waits: off, terminal or desktop; default off
	AgentConfig bool           `yaml:"agent_config"` // agents see the configuration of the home
	Docker      bool           `yaml:"docker"`       // new sandboxes have a Docker daemon of their own
	CPUs        float64        `yaml:"cpus"`         // for sandboxes that set none
	Memory      string         `yaml:"memory"`       // default: half of the host's
	Pids        int64          `yaml:"pids"`         // default 4096
	Disk        string         `yaml:"disk"`         // disk space of a sandbox, default 20g
	StoreLimit  string         `yaml:"store_limit"`  // total size of Bothy's data; default none
	Notify      []string       `yaml:"notify"`       // a program that is told whenever the state of a run changes
	Prices      []price.Price  `yaml:"prices"`       // of models, before the built-in ones
	Private     []string       `yaml:"private"`      // directories of a project that a sandbox has its own of

	Lend []string `yaml:"lend"` // tools whose tokens are lent to new sandboxes

	ModelServer string `yaml:"model_server"` // asked instead of the models of the agents' makers
	ModelKey    string `yaml:"model_key"`    // the secret that is lent for it
	ServerModel string `yaml:"server_model"` // the server's name of the model to use

	memory, disk, store int64
	lend                []hostcreds.Choice
}

// Defaults of the configuration.
const (
	defaultIdle   = 30 * time.Minute
	defaultDetach = `ctrl-\,ctrl-\`
	defaultPids   = 4096
	defaultDisk   = 20 << 30
	minMemory     = 512 << 20
	maxMemory     = 32 << 30
)

// loadConfig reads $XDG_CONFIG_HOME/bothy/config.yaml. A missing file counts as an empty one.
func loadConfig() (config, error) {
	var c config
	path, err := configPath()
	if err != nil {
		return c, nil // without a home there is nothing to read
	}
	data, err := readRegular(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return c, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		if _, hidden := os.Lstat(path); hidden != nil { // the home belongs to another user, as su leaves it
			fmt.Fprintf(os.Stderr, "bothy: the configuration is not read: %v\n", err)
			return c, nil
		}
		return c, spec.Errorf(spec.ErrUsage, "the configuration cannot be read: %w", err).
			WithHint("what it limits would not be limited: make %s readable for this user, or move it away", path)
	}
	if err != nil {
		return c, &spec.Error{Op: "read " + path, Err: err}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors write a byte order mark
	err = yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&c)
	if err != nil && !errors.Is(err, io.EOF) {
		return c, spec.Errorf(spec.ErrUsage, "%s:\n%s", path, yaml.FormatError(err, false, true)).
			WithHint("docs/cli.md lists the settings")
	}
	return c, c.check(path)
}

// readRegular reads a regular file, and refuses files that could block, such as pipes.
func readRegular(path string) ([]byte, error) {
	f, err := store.OpenRegular(path, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func (c *config) check(path string) (err error) {
	if c.memory, err = console.ParseSize(c.Memory); err != nil {
		return spec.Errorf(spec.ErrUsage, "%s: memory: %w", path, err)
	}
	if c.disk, err = console.ParseSize(c.Disk); err != nil {
		return spec.Errorf(spec.ErrUsage, "%s: disk: %w", path, err)
	}
	if c.store, err = console.ParseSize(c.StoreLimit); err != nil {
		return spec.Errorf(spec.ErrUsage, "%s: store_limit: %w", path, err)
	}
	if _, err := term.ParseKeys(c.detachKeys()); err != nil {
		return spec.Errorf(spec.ErrUsage, "%s: detach_keys: %w", path, err)
	}
	if !slices.Contains([]string{"", bellOff, bellTerminal, bellDesktop}, c.Bell) {
		return spec.Errorf(spec.ErrUsage, "%s: bell: %q is none of %s, %s, %s", path, c.Bell, bellOff, bellTerminal, bellDesktop)
	}
	if !validCPUs(c.CPUs) || c.Pids < 0 || c.IdleTimeout != nil && *c.IdleTimeout < 0 {
		return spec.Errorf(spec.ErrUsage, "%s: a limit must be a number, and not negative", path)
	}
	if c.memory > 0 && c.memory < minSandboxMemory {
		return spec.Errorf(spec.ErrUsage, "%s: memory: a sandbox needs at least %s", path, console.FormatSize(minSandboxMemory))
	}
	if len(c.Notify) > 0 && c.Notify[0] == "" {
		return spec.Errorf(spec.ErrUsage, "%s: notify names no program", path)
	}
	for _, p := range c.Prices {
		if err := p.Check(); err != nil {
			return spec.Errorf(spec.ErrUsage, "%s: prices: %w", path, err)
		}
	}
	for _, p := range c.Private {
		if !filepath.IsLocal(p) || filepath.Clean(p) == "." {
			return spec.Errorf(spec.ErrUsage, "%s: private: %q is no path within a project", path, p)
		}
	}
	if _, err := c.modelServer(); err != nil {
		return &spec.Error{Class: spec.ErrUsage, Op: path + ": model_server", Err: err, Hint: spec.Hint(err)}
	}
	if c.lend, err = hostcreds.ParseChoices(c.Lend); err != nil {
		return spec.Errorf(spec.ErrUsage, "%s: lend: %w", path, err).WithHint("%s", spec.Hint(err))
	}
	return nil
}

func configPath() (string, error) {
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "bothy", "config.yaml"), nil
	}
	home, err := store.Home()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".config", "bothy", "config.yaml"), nil
}

func (c config) idleTimeout() spec.Duration {
	if c.IdleTimeout != nil {
		return *c.IdleTimeout
	}
	return spec.Duration(defaultIdle)
}

func (c config) detachKeys() string {
	if c.DetachKeys != nil {
		return *c.DetachKeys
	}
	return defaultDetach
}

// title reports whether an attached terminal gets the sandbox's name.
func (c config) title() bool { return c.Title == nil || *c.Title }

// asked returns the limits that the settings name.
func (c config) asked() spec.Limits {
	return spec.Limits{CPUs: c.CPUs, Memory: c.memory, Pids: c.Pids, Disk: c.disk}
}

// limits returns the limits of a sandbox that sets none. Programs inside must not starve the host.
func (c config) limits() spec.Limits {
	l := c.asked()
	if l.Memory == 0 {
		l.Memory = min(max(console.HostMemory()/2, minMemory), maxMemory)
	}
	if l.Pids == 0 {
		l.Pids = defaultPids
	}
	if l.Disk == 0 {
		l.Disk = defaultDisk
	}
	return l
}
