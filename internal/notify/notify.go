// Package notify tells a program of the user's about changes of a run.
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

// Notice is the message about a run to a program of the user's. All but Detail is Bothy's own text.
// Detail may hold text that was written inside a sandbox; the maker of the notice removes its
// control characters.
type Notice struct {
	Event     string `json:"event"` // the change: Began ...
	Run       string `json:"run"`
	Kind      string `json:"kind"` // loop or flow
	Status    string `json:"status"`
	Reason    string `json:"stop_reason"`
	Detail    string `json:"detail"`
	Directory string `json:"directory"`
	Step      string `json:"step,omitempty"` // the step that asks, if the flow continues
	// Until is when a run that waits for a model continues by itself.
	Until time.Time `json:"until,omitzero"`
}

// Changes of a run. Status and Reason describe the run after the change.
const (
	Began   = "began"   // a process carries it on, for the first time
	Resumed = "resumed" // a process carries it on again
	Waits   = "waits"   // models cannot be asked for some time; it continues by itself
	GoesOn  = "goes_on" // they answer again
	Asks    = "asks"    // a step of a flow asks a person, while others are at work
	Rewound = "rewound" // a person made a loop go back
	Ended   = "ended"   // no process carries it on any more: it is over, or needs a person
)

// notifyTime bounds how long the program may take: the run waits for it.
const notifyTime = 10 * time.Second

// Send runs a program of the user's with a notice: as variables (BOTHY_EVENT, BOTHY_RUN,
// BOTHY_KIND, BOTHY_STATUS, BOTHY_REASON, BOTHY_DETAIL, BOTHY_DIRECTORY, BOTHY_STEP, BOTHY_UNTIL),
// and as JSON on its standard input. No shell reads any of it.
func Send(ctx context.Context, paths *hostpath.Guard, argv []string, n Notice) error {
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
			WithHint("the setting notify names the program")
	}
	return nil
}

func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }
