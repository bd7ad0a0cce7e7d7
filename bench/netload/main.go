// Command netload is both ends of the network bench, and a gateway without a
// sandbox: one static program, so that the same client runs on the kernel's
// stack and inside a sandbox.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// parts are the parts of the program, by its first argument.
var parts = map[string]func(args []string) error{
	"origin":  origin,
	"client":  client,
	"gateway": runGateway,
	"hostile": hostile,
	"decide":  decide,
}

func main() {
	err := errors.New("usage: netload origin|client|hostile|gateway|decide")
	if len(os.Args) > 1 && parts[os.Args[1]] != nil {
		err = parts[os.Args[1]](os.Args[2:])
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "netload: error: %v\n", err)
		os.Exit(1)
	}
}

// tell writes one line of JSON for the process that started this one.
func tell(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }
