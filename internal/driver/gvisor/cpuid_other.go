//go:build !amd64

package gvisor

// readCPUID leaves it to gVisor, which has little to ask here.
func readCPUID() {}

// leaveCPUID has nothing to do: no program can ask the processor directly.
func leaveCPUID() error { return nil }
