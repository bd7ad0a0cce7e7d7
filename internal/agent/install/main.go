package install

import (
	"context"
	"io"
	"os"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/helper"
	"github.com/bothy-dev/bothy/internal/store"
)

// Main carries out one order and returns the exit code.
func Main(in io.Reader, out io.Writer) int { return helper.Run(in, out, carryOut) }

func carryOut(ctx context.Context, o agent.Order, tell func(agent.Event)) (agent.Result, error) {
	st, err := store.Open(o.State)
	if err != nil {
		return agent.Result{}, err
	}
	var pace helper.Pace
	return Install(ctx, st, os.Environ(), o.Request, func(e agent.Event) {
		if pace.Worth(string(e.Phase), e.Bytes, e.Total) {
			tell(e)
		}
	})
}
