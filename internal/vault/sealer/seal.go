// Package sealer is the process that seals and opens the values of secrets, and talks to the desktop's
// keyring. It lives for one order.
//
// It is a separate process, so that no other process ever holds the key that opens values: this one
// cannot be traced or dumped by other processes of its user.
package sealer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

const maxOrder = 32 << 20

// patience bounds the time of a keyring, which may ask the user.
const patience = time.Minute

// Main carries out one order and returns the exit code.
func Main(in io.Reader, out io.Writer) int {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var o vault.Order
	err := json.NewDecoder(io.LimitReader(in, maxOrder)).Decode(&o)
	if err != nil {
		err = errors.New("it got no valid order") // the cause may quote a value
	}
	var a vault.Answer
	if err == nil {
		a, err = carryOut(ctx, o)
	}
	if err != nil {
		a = vault.Answer{Error: spec.ToWire(err)}
	}
	if json.NewEncoder(out).Encode(a) != nil {
		return spec.ExitError
	}
	return spec.ExitOK
}

func carryOut(ctx context.Context, o vault.Order) (vault.Answer, error) {
	switch o.Op {
	case vault.OpMake:
		return makeKey(ctx, o)
	case vault.OpSeal:
		return sealAll(o)
	case vault.OpOpen:
		return openAll(ctx, o)
	case vault.OpForget:
		return vault.Answer{}, forget(ctx, o)
	}
	return vault.Answer{}, fmt.Errorf("unknown order %q", o.Op)
}
