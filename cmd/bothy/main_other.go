//go:build !linux

package main

import (
	"os"

	"github.com/bothy-dev/bothy/internal/elsewhere"
)

func main() { os.Exit(elsewhere.Main(os.Args, os.Stdout, os.Stderr)) }
