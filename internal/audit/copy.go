package audit

import (
	"context"
	"fmt"
	"io"
)

// Copy writes the output kept at path to w, oldest bytes first. With follow it continues until ctx is
// done, and waits for the output if it does not exist yet; it then returns the error of ctx. Without
// follow, a missing output is fs.ErrNotExist. The bytes are the program's own: use term.SanitizingWriter
// before they reach a terminal that they were not meant for.
func Copy(ctx context.Context, path string, w io.Writer, follow bool) error {
	out := walk{path: path, follow: follow, data: writeTo(w), fileEnd: nothing}
	if err := out.run(ctx); err != nil {
		return fmt.Errorf("copy output log: %w", err)
	}
	return nil
}

func nothing() error { return nil }

func writeTo(w io.Writer) func([]byte) error {
	return func(p []byte) error {
		_, err := w.Write(p)
		return err
	}
}
