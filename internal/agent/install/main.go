package install

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// maxOrder bounds an order in bytes.
const maxOrder = 1 << 20

// Main does one order and gives the exit code. When in ends, nobody waits for the
// answer any more, and it gives up.
func Main(in io.Reader, out io.Writer) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	order := agent.Order{}
	if err := json.NewDecoder(io.LimitReader(in, maxOrder)).Decode(&order); err != nil {
		return answer(out, agent.Result{}, errors.New("it was given no order"))
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel(errors.New("who asked for it is gone"))
	}()
	result, err := do(ctx, order, teller(json.NewEncoder(out)))
	return answer(out, result, err)
}

func do(ctx context.Context, o agent.Order, progress func(agent.Event)) (agent.Result, error) {
	st, err := store.Open(o.State)
	if err != nil {
		return agent.Result{}, err
	}
	return Install(ctx, st, os.Environ(), o.Request, progress)
}

func answer(out io.Writer, result agent.Result, err error) int {
	m, code := agent.Message{Result: &result}, spec.ExitOK
	if err != nil {
		m, code = agent.Message{Error: spec.ToWire(err)}, spec.ExitCode(err)
	}
	if json.NewEncoder(out).Encode(m) != nil {
		return spec.ExitError
	}
	return code
}

// step is how many bytes are worth telling of.
const step = 1 << 20

// teller passes on as much as is worth it.
func teller(out *json.Encoder) func(agent.Event) {
	var last agent.Event
	return func(e agent.Event) {
		complete := e.Total > 0 && e.Bytes == e.Total
		if e.Phase == last.Phase && e.Bytes >= last.Bytes && e.Bytes-last.Bytes < step && !complete {
			return
		}
		last = e
		_ = out.Encode(agent.Message{Event: &e}) // nobody there: in ends, too
	}
}
