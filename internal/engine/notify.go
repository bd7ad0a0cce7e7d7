package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// Notice is what a program of the user's is told about a run. All but Detail is
// Bothy's own; that may hold what somebody inside a sandbox has written, with control
// characters taken out by whoever makes the notice.
type Notice struct {
	Event     string `json:"event"` // EventBegan ...: what has changed
	Run       string `json:"run"`
	Kind      string `json:"kind"` // loop or flow
	Status    string `json:"status"`
	Reason    string `json:"stop_reason"`
	Detail    string `json:"detail"`
	Directory string `json:"directory"`
	Step      string `json:"step,omitempty"` // of a flow that goes on: what asks
	// Until is when a run goes on by itself that waits for a model.
	Until time.Time `json:"until,omitzero"`
}

// What changes of a run. Status and Reason tell how it stands after it.
const (
	EventBegan   = "began"   // a process carries it on, for the first time
	EventResumed = "resumed" // a process carries it on again
	EventWaits   = "waits"   // models cannot be asked for some time; it goes on by itself
	EventGoesOn  = "goes_on" // they answer again
	EventAsks    = "asks"    // a step of a flow asks a person, while others are at work
	EventRewound = "rewound" // a person had a loop go back
	EventEnded   = "ended"   // nobody carries it on any more: it is over, or needs a person
)

// notifyTime bounds how long the program may take: the run waits for it.
const notifyTime = 10 * time.Second

// Notify has a program of the user's hear of something: as variables (BOTHY_EVENT, BOTHY_RUN,
// BOTHY_KIND, BOTHY_STATUS, BOTHY_REASON, BOTHY_DETAIL, BOTHY_DIRECTORY, BOTHY_STEP,
// BOTHY_UNTIL), and as JSON on its standard input. No shell reads any of it.
func (e *Engine) Notify(ctx context.Context, argv []string, n Notice) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, notifyTime)
	defer cancel()
	until := ""
	if !n.Until.IsZero() {
		until = n.Until.UTC().Format(time.RFC3339)
	}
	paths, err := e.Paths()
	if err != nil {
		return err
	}
	cmd, err := paths.Command(ctx, argv[0], argv[1:]...)
	if err != nil {
		return &spec.Error{Op: "tell " + argv[0] + " of the run " + n.Run, Err: err}
	}
	cmd.Env = append(cmd.Env, "BOTHY_EVENT="+n.Event, "BOTHY_RUN="+n.Run, "BOTHY_KIND="+n.Kind, "BOTHY_STATUS="+n.Status,
		"BOTHY_REASON="+n.Reason, "BOTHY_DETAIL="+strings.ReplaceAll(n.Detail, "\x00", ""), "BOTHY_DIRECTORY="+n.Directory, "BOTHY_STEP="+n.Step, "BOTHY_UNTIL="+until)
	cmd.Stdin = bytes.NewReader(append(text, '\n'))
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second // a child may hold its output open
	if out, err := cmd.CombinedOutput(); err != nil {
		return spec.Errorf(nil, "tell %s that the run %s is %s: %w: %s", argv[0], n.Run, n.Status, err, lastLine(strings.TrimSpace(string(out)))).
			WithHint("the setting notify says what is told")
	}
	return nil
}
