package keeper

import (
	"fmt"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/keeper/session"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// memoryName is the file of a memory image that a keeper writes.
const memoryName = "keeper.json"

const memoryVersion = 1

// Memory belongs to an image of a sandbox's memory but is not in it: the machine of the wall, and
// the state of the keeper. It contains no secrets.
type Memory struct {
	Version int `json:"version"`
	// Host identifies the programs of the host; empty if the sandbox has none of them.
	Host string `json:"host,omitempty"`
	// Certificate is that of the authority that programs trust, in DER.
	Certificate []byte   `json:"certificate"`
	Names       []string `json:"names,omitempty"` // for which the inside's addresses were given out

	Init      []string `json:"init"`
	RootLimit int64    `json:"root_limit,omitempty"`
	// ShownMemory and ShownCPUs are the limits to which programs have adapted.
	ShownMemory int64       `json:"shown_memory,omitempty"`
	ShownCPUs   float64     `json:"shown_cpus,omitempty"`
	Image       string      `json:"image,omitempty"`
	Mounts      []keptMount `json:"mounts"`
	// Program, Runtime and Adapter are the directories of the installations that the sandbox uses.
	Program string `json:"program,omitempty"`
	Runtime string `json:"runtime,omitempty"`
	Adapter string `json:"adapter,omitempty"`

	Message     uint32         `json:"message"` // the last number in the connection to init
	LastSession int            `json:"last_session"`
	Sessions    []session.Kept `json:"sessions,omitempty"`
}

// keptMount holds the properties of a mount that must stay the same.
type keptMount struct {
	Target string `json:"target"`
	How    string `json:"how"`
	Size   int64  `json:"size,omitempty"` // of a file system in memory
}

// OpenMemory reads the Memory of an image. It refuses an image that programs cannot continue from
// here, with this build.
func OpenMemory(dir, build string) (*Memory, error) {
	im, err := driver.OpenMemory(dir, build)
	if err != nil {
		return nil, err
	}
	im.Close()
	m := &Memory{}
	if err := store.ReadJSON(filepath.Join(dir, memoryName), m); err != nil {
		return nil, err
	}
	if m.Version < 1 {
		return nil, fmt.Errorf("%s has no version", filepath.Join(dir, memoryName))
	}
	if m.Host != "" && m.Host != hostroot.Fingerprint() {
		return nil, spec.Errorf(spec.ErrConflict, "programs of the host were installed or removed since, and memory may hold parts of what they were").
			WithHint("go back to the files alone: --files")
	}
	return m, nil
}

// writeFile writes it beside the image.
func (m *Memory) writeFile(dir string) error {
	if m.Image == "" {
		m.Host = hostroot.Fingerprint()
	}
	return store.WriteJSON(filepath.Join(dir, memoryName), m)
}

// noteMachine notes the machine of the wall.
func (m *Memory) noteMachine(d driver.Machine) {
	m.Init, m.RootLimit, m.Image = d.Init, d.RootLimit, d.Image
	m.ShownMemory, m.ShownCPUs = d.ShownMemory, d.ShownCPUs
	for _, mount := range d.Mounts {
		m.Mounts = append(m.Mounts, keptMount{mount.Target, mountKind(mount), mount.Size})
	}
}

func mountKind(m driver.Mount) string {
	stage := ""
	if m.Stage != "" {
		stage = ", staged at " + m.Stage
	}
	switch {
	case m.Memory && m.Kept:
		return fmt.Sprintf("memory %o, kept", m.Mode)
	case m.Memory:
		return fmt.Sprintf("memory %o", m.Mode)
	case m.ReadOnly:
		return fmt.Sprintf("read-only, exclusive %t", m.Exclusive) + stage
	}
	return fmt.Sprintf("exclusive %t", m.Exclusive) + stage
}

// fitMachine makes a machine continue from the image, with the limits of that time.
func (m *Memory) fitMachine(d *driver.Machine, dir string) error {
	for i, mount := range d.Mounts {
		if i >= len(m.Mounts) || m.Mounts[i].Target != mount.Target || m.Mounts[i].How != mountKind(mount) {
			return m.unlike(mount.Target)
		}
		d.Mounts[i].Size = m.Mounts[i].Size
	}
	if n := len(d.Mounts); n < len(m.Mounts) {
		return m.unlike(m.Mounts[n].Target)
	}
	if m.Image != d.Image {
		return m.unlike("/")
	}
	d.Memory, d.Init, d.RootLimit = dir, m.Init, m.RootLimit
	d.ShownMemory, d.ShownCPUs = m.ShownMemory, m.ShownCPUs
	return nil
}

// installed checks that the installations are those that programs have in memory: gVisor does not
// check whether a file has changed.
func (m *Memory) installed(l launch.Settings) error {
	if m.Program == l.Program && m.Runtime == l.Runtime && m.Adapter == l.Adapter {
		return nil
	}
	return spec.Errorf(spec.ErrConflict, "the sandbox uses another version of its agent by now, and programs have parts of the old one in memory").
		WithHint("go back to the files alone: --files")
}

func (*Memory) unlike(target string) error {
	return spec.Errorf(spec.ErrConflict, "the mount at %s has changed, and programs have the old one in memory", target).
		WithHint("go back to the files alone: --files")
}

// remember collects the keeper's state while the sandbox is paused.
func (k *Keeper) remember() *Memory {
	id := k.gateway.Identity()
	m := &Memory{Version: memoryVersion, Certificate: id.Authority.Certificate, Names: id.Names}
	m.noteMachine(k.built)
	m.Program, m.Runtime, m.Adapter = k.launch.Program, k.launch.Runtime, k.launch.Adapter
	m.Message = k.link.LastNumber()
	m.LastSession, m.Sessions = k.sessions.Kept()
	return m
}

// takeUp continues with an init whose memory was restored, and with the programs under it.
func (k *Keeper) takeUp() error {
	m := k.memory
	k.useLink(initlink.Continue(k.wall.Control(), m.Message))
	k.sessions.SetLast(m.LastSession)
	adopted := make([]*session.Session, len(m.Sessions))
	for i, kept := range m.Sessions {
		adopted[i] = k.adoptSession(kept)
	}
	if err := k.link.Resume(); err != nil {
		return fmt.Errorf("go on with what runs: %w", err)
	}
	for i, s := range adopted {
		kept := m.Sessions[i]
		if kept.Held > 0 {
			_ = k.link.Send(wire.CreditFrame(kept.Stream, kept.Held))
		}
		k.wg.Go(func() { s.CarryOutput(); k.noteEnded(s) })
		k.wg.Go(func() { k.ender.LimitRest(s, kept) })
	}
	return nil
}

// adoptSession makes a session of a program that runs already. It has no viewers yet.
func (k *Keeper) adoptSession(kept session.Kept) *session.Session {
	s := session.UnderInit(k.link.ResumeStream(kept.Stream, kept.Credit), k.outputOf(kept.Logged), k.sessionEnding())
	if kept.Info.Kind == session.KindAgent && kept.Info.TTY {
		s.ReportIdle(k.status.NoteWaiting, true)
	}
	k.sessions.Put(s, kept.Info)
	return s
}
