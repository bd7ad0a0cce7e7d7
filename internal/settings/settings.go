// Package settings reads the user's config.yaml: the defaults of new sandboxes, the limits of the
// state directory, and how the command line behaves.
package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostcreds"
	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/strictyaml"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// Settings are the contents of config.yaml. An unknown key is an error: a misspelt limit must not go
// unnoticed.
type Settings struct {
	Idle        *spec.Duration `yaml:"idle_timeout"` // default 30m; 0 never stops
	Detach      *string        `yaml:"detach_keys"`  // default ctrl-\,ctrl-\
	SetTitle    *bool          `yaml:"title"`        // of the terminal while it is attached; default true
	Bell        string         `yaml:"bell"`         // when an agent waits: off, terminal or desktop; default off
	AgentConfig bool           `yaml:"agent_config"` // agents see the configuration in the home
	Docker      bool           `yaml:"docker"`       // new sandboxes have a Docker daemon of their own
	CPUs        float64        `yaml:"cpus"`         // for sandboxes that set none
	MemoryText  string         `yaml:"memory"`       // default: half of the host's
	Pids        int64          `yaml:"pids"`         // default 4096
	DiskText    string         `yaml:"disk"`         // disk space of a sandbox; default 20g
	StoreText   string         `yaml:"store_limit"`  // total size of Bothy's data; default none
	Notify      []string       `yaml:"notify"`       // a program to call whenever the state of a run changes
	Prices      []price.Price  `yaml:"prices"`       // of models, before the built-in ones
	Private     []string       `yaml:"private"`      // project directories that each sandbox has for itself

	LendNames []string `yaml:"lend"` // tools whose tokens are lent to new sandboxes

	ServerURL   string `yaml:"model_server"` // asked instead of the models of the agents' makers
	ServerKey   string `yaml:"model_key"`    // the secret that is lent for it
	ServerModel string `yaml:"server_model"` // the server's name of the model to use

	// Lend are the tokens that LendNames names.
	Lend []hostcreds.Choice `yaml:"-"`
	// StoreLimit is the total size of Bothy's data, in bytes. Zero: no limit.
	StoreLimit int64 `yaml:"-"`
	// SaveEvery is the shortest time between two background saves of a root layer. It is that of the
	// variable BOTHY_SAVE_EVERY. Zero: the default.
	SaveEvery spec.Duration `yaml:"-"`

	memory, disk int64
}

// Values of Bell.
const (
	BellOff      = "off"
	BellTerminal = "terminal" // the character BEL
	BellDesktop  = "desktop"  // BEL plus a notification by the terminal, if it supports them (OSC 777)
)

// Defaults of the configuration.
const (
	defaultIdle   = 30 * time.Minute
	defaultDetach = `ctrl-\,ctrl-\`
	defaultPids   = 4096
	defaultDisk   = 20 << 30
	minMemory     = 512 << 20
	maxMemory     = 32 << 30
)

// Load reads $XDG_CONFIG_HOME/bothy/config.yaml, and the variable of the environment that is a setting.
// A missing file counts as an empty one. The error is of class [spec.ErrUsage] if they hold a mistake.
// note receives a text for a person if a file is passed over.
func Load(note func(text string)) (Settings, error) {
	c, err := loadFile(note)
	if v := os.Getenv(saveEveryVar); v != "" && err == nil {
		if err := c.SaveEvery.UnmarshalText([]byte(v)); err != nil {
			return c, spec.Errorf(spec.ErrUsage, "%s: %w", saveEveryVar, err).WithHint("set it to a time, such as 30s, or unset it")
		}
	}
	return c, err
}

// saveEveryVar names the variable with the time between two saves of a root layer.
const saveEveryVar = "BOTHY_SAVE_EVERY"

func loadFile(note func(text string)) (Settings, error) {
	var c Settings
	path, err := Path()
	if err != nil {
		return c, nil // without a home there is nothing to read
	}
	data, err := readRegular(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return c, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		if _, hidden := os.Lstat(path); hidden != nil { // the home belongs to another user, as su leaves it
			note(fmt.Sprintf("the configuration is not read: %v", err))
			return c, nil
		}
		return c, spec.Errorf(spec.ErrUsage, "the configuration cannot be read: %w", err).
			WithHint("its limits would not hold: make %s readable for this user, or move it away", path)
	}
	if err != nil {
		return c, &spec.Error{Op: "read " + path, Err: err}
	}
	if err := strictyaml.Unmarshal(data, &c); err != nil {
		return c, spec.Errorf(spec.ErrUsage, "%s:\n%w", path, err).
			WithHint("docs/reference/settings.md lists the settings")
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

func (c *Settings) check(path string) (err error) {
	if c.memory, err = spec.ParseSize(c.MemoryText); err != nil {
		return spec.Errorf(spec.ErrUsage, "%s: memory: %w", path, err)
	}
	if c.disk, err = spec.ParseSize(c.DiskText); err != nil {
		return spec.Errorf(spec.ErrUsage, "%s: disk: %w", path, err)
	}
	if c.StoreLimit, err = spec.ParseSize(c.StoreText); err != nil {
		return spec.Errorf(spec.ErrUsage, "%s: store_limit: %w", path, err)
	}
	if _, err := term.ParseKeys(c.DetachKeys()); err != nil {
		return spec.Errorf(spec.ErrUsage, "%s: detach_keys: %w", path, err)
	}
	if !slices.Contains([]string{"", BellOff, BellTerminal, BellDesktop}, c.Bell) {
		return spec.Errorf(spec.ErrUsage, "%s: bell: %q is none of %s, %s, %s", path, c.Bell, BellOff, BellTerminal, BellDesktop)
	}
	if !spec.ValidCPUs(c.CPUs) || c.Pids < 0 || c.Idle != nil && *c.Idle < 0 {
		return spec.Errorf(spec.ErrUsage, "%s: a limit must be a number, and not negative", path)
	}
	if c.memory > 0 && c.memory < spec.MinMemory {
		return spec.Errorf(spec.ErrUsage, "%s: memory: a sandbox needs at least %s", path, spec.FormatSize(spec.MinMemory))
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
			return spec.Errorf(spec.ErrUsage, "%s: private: %q is not a path within a project", path, p)
		}
	}
	if _, err := c.ModelServer(); err != nil {
		return &spec.Error{Class: spec.ErrUsage, Op: path + ": model_server", Err: err, Hint: spec.Hint(err)}
	}
	if c.Lend, err = hostcreds.ParseChoices(c.LendNames); err != nil {
		return spec.Errorf(spec.ErrUsage, "%s: lend: %w", path, err).WithHint("%s", spec.Hint(err))
	}
	return nil
}

// Path returns the path of config.yaml. Descriptions of the user's own agents are in the directory
// agents beside it.
func Path() (string, error) {
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "bothy", "config.yaml"), nil
	}
	home, err := store.Home()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".config", "bothy", "config.yaml"), nil
}

// IdleTimeout returns how long a new sandbox may be unused before it stops by itself. Zero: it never
// stops.
func (c Settings) IdleTimeout() spec.Duration {
	if c.Idle != nil {
		return *c.Idle
	}
	return spec.Duration(defaultIdle)
}

// DetachKeys returns the keys that detach a terminal from a sandbox.
func (c Settings) DetachKeys() string {
	if c.Detach != nil {
		return *c.Detach
	}
	return defaultDetach
}

// Title reports whether an attached terminal gets the sandbox's name.
func (c Settings) Title() bool { return c.SetTitle == nil || *c.SetTitle }

// Asked returns the limits that the settings name.
func (c Settings) Asked() spec.Limits {
	return spec.Limits{CPUs: c.CPUs, Memory: c.memory, Pids: c.Pids, Disk: c.disk}
}

// Limits returns the limits of a sandbox that sets none. Programs inside must not starve the host.
func (c Settings) Limits() spec.Limits {
	l := c.Asked()
	if l.Memory == 0 {
		l.Memory = min(max(hostMemory()/2, minMemory), maxMemory)
	}
	if l.Pids == 0 {
		l.Pids = defaultPids
	}
	if l.Disk == 0 {
		l.Disk = defaultDisk
	}
	return l
}

// hostMemory returns the memory of this machine in bytes.
func hostMemory() int64 {
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) != nil {
		return 0
	}
	return int64(si.Totalram) * int64(si.Unit)
}

// ModelServer returns the server that agents ask instead of their makers' models, or nil if the
// settings name none.
func (c Settings) ModelServer() (*spec.ModelServer, error) {
	if c.ServerURL == "" {
		if c.ServerKey+c.ServerModel != "" {
			return nil, spec.Errorf(spec.ErrUsage, "model_key and server_model are for a model server")
		}
		return nil, nil
	}
	return spec.NewModelServer(c.ServerURL, c.ServerKey, c.ServerModel)
}
