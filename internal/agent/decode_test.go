package agent

import "github.com/bothy-dev/bothy/spec"

// Decode reads a description, and checks it. Unknown keys are errors.
func Decode(data []byte) (*spec.Agent, error) {
	a, err := parse(data)
	if err != nil {
		return nil, err
	}
	return a, checkAgent(a)
}
