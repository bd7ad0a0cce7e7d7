package audit

import (
	"context"
	"fmt"
	"io"
)

// Copy writes the output kept at path to w, oldest bytes first. With follow it
// goes on until ctx is done, and waits for the output if there is none yet; it
// then returns the error of ctx. Without, and without any output, the error is
// fs.ErrNotExist. The bytes are the program's own: use term.SanitizingWriter
// before they reach a terminal they were not meant for.
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
