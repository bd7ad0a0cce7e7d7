package driver

import (
	"errors"
	"io/fs"

	"github.com/bothy-dev/bothy/internal/sums"
	"github.com/bothy-dev/bothy/spec"
)

// SumMemory completes an image that Wall.SaveMemory has written: it records the build that wrote it, and
// sums its files. The sandbox need not be paused for that.
func SumMemory(dir, build string) error {
	if err := writeBuild(dir, build); err != nil {
		return err
	}
	return sums.Write(dir)
}

// OpenMemory opens the files of a memory image that this build wrote.
func OpenMemory(dir, build string) (*sums.Files, error) {
	if err := CheckBuild(dir, build); err != nil {
		return nil, err
	}
	files, err := sums.Open(dir)
	if errors.Is(err, sums.ErrNone) { // every build that writes images sums them
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, (&spec.Error{Op: "open the memory", Err: err}).
			WithHint("go back to the files alone: --files")
	}
	return files, nil
}
