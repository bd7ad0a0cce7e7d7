package keeper

import (
	"fmt"
	"os"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/modelscript"
	"github.com/bothy-dev/bothy/spec"
)

// openMock reads the script of a sandbox whose models are mocked, and opens the log of their
// requests.
func (k *Keeper) openMock() (*Mock, error) {
	if k.spec.Mock == nil {
		return nil, nil
	}
	text, err := os.ReadFile(k.dir.Mock())
	if err != nil {
		return nil, fmt.Errorf("read the script of the mock: %w", err)
	}
	script, err := modelscript.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.dir.Mock(), err)
	}
	log, err := audit.Open(k.dir.ModelLog(), audit.Options{})
	if err != nil {
		return nil, err
	}
	asked := func(r spec.ModelRequest) {
		if err := log.Write(spec.ModelAsked, r); err != nil {
			k.log.Warn("write the model's log", "err", err)
		}
	}
	return &Mock{Script: script, Hosts: k.spec.Mock.Hosts, Asked: asked}, nil
}
