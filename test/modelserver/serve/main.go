// Command serve is a model that answers from a script, on a port of the loopback, for trying an agent
// without a key:
//
//	go run ./test/modelserver/serve script.yaml
//
// It prints the address, and then every request as a line of JSON. Package modelscript describes the
// scripts.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/bothy-dev/bothy/internal/modelscript"
	"github.com/bothy-dev/bothy/internal/modelserver"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: serve SCRIPT")
		os.Exit(2)
	}
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func serve(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	script, err := modelscript.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	model, err := modelserver.New(script)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	model.Log = os.Stdout
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	server := http.Server{Handler: model, ReadHeaderTimeout: time.Minute}
	return server.Serve(l)
}
