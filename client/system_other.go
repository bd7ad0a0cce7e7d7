//go:build !linux

package client

import (
	"context"
	"runtime"

	"github.com/bothy-dev/bothy/spec"
)

// unsupported returns why no call works on this platform.
func unsupported() error {
	return spec.Errorf(spec.ErrSandbox, "sandboxes need Linux, and this is %s/%s", runtime.GOOS, runtime.GOARCH)
}

func (c *Client) create(context.Context, spec.Request) (*spec.Sandbox, error) {
	return nil, unsupported()
}

func (c *Client) listSandboxes(context.Context) ([]Listed, error) { return nil, unsupported() }

func (c *Client) inspect(context.Context, string) (*spec.Sandbox, spec.Status, error) {
	return nil, spec.Status{}, unsupported()
}

func (c *Client) stopSandbox(context.Context, string) error { return unsupported() }

func (c *Client) remove(context.Context, string) error { return unsupported() }

func (c *Client) execCommand(context.Context, string, *Command) (Result, error) {
	err := unsupported()
	return Result{ExitCode: spec.ExitCode(err)}, err
}

func namesOf(name string) []string { return []string{name} }
