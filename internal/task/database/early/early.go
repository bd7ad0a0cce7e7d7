// Package early plays the role of package database, as internal/front does with the
// command line. It imports what the command line must not.
//
// Nothing can be tested in here.
package early

import (
	"os"

	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/internal/task/database"
)

func init() {
	if len(os.Args) == 2 && os.Args[0] == book.Argv0 {
		go func() { os.Exit(database.Main(os.Args[1], os.Stdin, os.Stdout)) }()
		select {}
	}
}
