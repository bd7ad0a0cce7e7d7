// Package ask runs orders in the process that seals and opens values. The caller, an engine
// or a keeper, never holds the key that opens them.
package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/bothy-dev/bothy/internal/nsproc"
	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/internal/vault"
)

// patience bounds one order. A keyring may prompt the user.
const patience = 90 * time.Second

// Self stands for the program that plays the role for this process: [program.Self].
const Self = ""

// Do runs an order in a process of a program, Self or a path, with this environment and no other. Its data crosses pipes only.
func Do(ctx context.Context, path string, o vault.Order, env ...string) (vault.Answer, error) {
	var a vault.Answer
	if os.Args[0] == vault.Argv0 { // a program that does not play the role would start itself forever
		return a, errors.New("this process must open values itself")
	}
	in, err := json.Marshal(o)
	if err == nil && path == Self {
		path, err = program.Self()
	}
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Env, cmd.Dir = []string{vault.Argv0}, append([]string{}, env...), "/"
	cmd.Stdin, cmd.Stdout = bytes.NewReader(in), &out
	if err = nsproc.Humbly(cmd.Start); err == nil {
		err = cmd.Wait()
	}
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &a)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return vault.Answer{}, fmt.Errorf("%s: %w", vault.Argv0, err)
	}
	if a.Error != nil {
		return a, a.Error.Err()
	}
	return a, nil
}

// Seal seals a value for a recipient. It does not need the key that opens it.
func Seal(ctx context.Context, program, recipient, name string, value []byte, env ...string) (string, error) {
	a, err := Do(ctx, program, vault.Order{Op: vault.OpSeal, Recipient: recipient, Items: []vault.Item{{Name: name, Value: value}}}, env...)
	if err == nil && (len(a.Items) != 1 || a.Items[0].Sealed == "") {
		err = errors.New("nothing was sealed")
	}
	if err != nil {
		return "", fmt.Errorf("seal %s: %w", name, err)
	}
	return a.Items[0].Sealed, nil
}
