package guest

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/archive"
)

// Copy is the inside's half of cp:
//
//	out PATH (follow|keep|straight)
//	                         archives PATH to standard output; straight: no link
//	                         may be in it, and pipes and the like are noted too
//	back DIR PATH            makes PATH below DIR equal to standard input,
//	                         see [archive.PutBack]
//	in PATH NAME             extracts standard input at PATH, NAME being what
//	                         the source was called; "." extracts its contents
func Copy(args []string) int {
	var err error
	switch {
	case len(args) == 3 && args[0] == "out":
		err = copyOut(args[1], archive.WriteOptions{Follow: args[2] == "follow", Straight: args[2] == "straight", Special: args[2] == "straight"})
	case len(args) == 3 && args[0] == "back":
		err = archive.PutBack(bufio.NewReaderSize(os.Stdin, 256<<10), args[1], args[2])
	case len(args) == 3 && args[0] == "in":
		err = copyIn(args[1], args[2])
	default:
		err = errors.New("wrong arguments")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, fs.ErrNotExist) {
			return CopyNotFound
		}
		return 1
	}
	return 0
}

// CopyNotFound is Copy's exit code for a path that does not exist.
const CopyNotFound = 4

func copyOut(path string, o archive.WriteOptions) error {
	w := bufio.NewWriterSize(os.Stdout, 256<<10)
	if strings.HasSuffix(path, "/.") || path == "/" {
		o.Name = "."
	}
	if err := archive.Write(w, filepath.Clean(path), o); err != nil {
		return err
	}
	return w.Flush()
}

func copyIn(path, name string) error {
	// When the caller goes away the archive ends, and copyIn removes the half-written file.
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGTERM)
	// The slash makes sure that only a directory is opened.
	open := func(dir string) (*os.Root, error) { return os.OpenRoot(dir + "/") }
	root, rename, err := archive.Destination(path, name, open)
	if err != nil {
		return err
	}
	defer root.Close()
	err = archive.Extract(bufio.NewReaderSize(os.Stdin, 256<<10), root, archive.ExtractOptions{Rename: rename})
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		return fmt.Errorf("%w (copy as root with -u root?)", err)
	}
	return err
}
