package keeper

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/modelscript"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// openMock reads the script of a sandbox whose models are mocked, and opens the log of their
// requests.
func openMock(sb *spec.Sandbox, dir store.Sandbox, said *slog.Logger) (*Mock, error) {
	if sb.Mock == nil {
		return nil, nil
	}
	text, err := os.ReadFile(dir.Mock())
	if err != nil {
		return nil, fmt.Errorf("read the script of the mock: %w", err)
	}
	script, err := modelscript.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir.Mock(), err)
	}
	log, err := audit.Open(dir.ModelLog(), audit.Options{})
	if err != nil {
		return nil, err
	}
	asked := func(r spec.ModelRequest) {
		if err := log.Write(spec.ModelAsked, r); err != nil {
			said.Warn("write the model's log", "err", err)
		}
	}
	return &Mock{Script: script, Hosts: sb.Mock.Hosts, Asked: asked}, nil
}
