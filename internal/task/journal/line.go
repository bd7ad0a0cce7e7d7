package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// version is that of the format.
const version = 1

// header is the first line. Seq is the number of the last change before those that
// follow.
type header struct {
	Version int    `json:"bothy_tasks"`
	Project string `json:"project"`
	Seq     int64  `json:"seq"`
}

// entry is every other line: tasks that are new or other than before. Numbers
// follow each other, so that a line that is missing is missed.
type entry struct {
	Seq   int64             `json:"seq"`
	Tasks []json.RawMessage `json:"tasks"`
}

// loaded is what a file says.
type loaded struct {
	graph *task.Graph
	seq   int64 // of the last change
	size  int64 // bytes that count: behind them is what a crash left
	live  int64 // bytes of the tasks as they are now
}

// damaged says from which line on a file cannot be read.
type damaged struct {
	line int
	why  error
}

func (d *damaged) Error() string { return fmt.Sprintf("line %d is damaged: %v", d.line, d.why) }
func (d *damaged) Unwrap() error { return d.why }

// sumLength is how long a checksum is, with the space behind it.
const sumLength = 9

// seal makes a line of a document.
func seal(doc []byte) []byte {
	line := fmt.Appendf(make([]byte, 0, len(doc)+sumLength+1), "%08x ", crc32.ChecksumIEEE(doc))
	return append(append(line, doc...), '\n')
}

// unseal gives the document of a line without its end.
func unseal(line []byte) ([]byte, error) {
	if len(line) < sumLength || line[sumLength-1] != ' ' {
		return nil, errors.New("it has no checksum")
	}
	sum, err := strconv.ParseUint(string(line[:sumLength-1]), 16, 32)
	if err != nil {
		return nil, errors.New("it has no checksum")
	}
	doc := line[sumLength:]
	if crc32.ChecksumIEEE(doc) != uint32(sum) {
		return nil, errors.New("its checksum is another")
	}
	return doc, nil
}

func head(project string, seq int64) ([]byte, error) {
	doc, err := json.Marshal(header{version, project, seq})
	return seal(doc), err
}

// record makes the line of a change. Documents go into it byte by byte.
func record(seq int64, tasks []*task.Task) ([]byte, error) {
	doc := fmt.Appendf(nil, `{"seq":%d,"tasks":[`, seq)
	for i, t := range tasks {
		d, err := t.Encode()
		if err != nil {
			return nil, fmt.Errorf("encode task %s: %w", t.ID, err)
		}
		if i > 0 {
			doc = append(doc, ',')
		}
		doc = append(doc, d...)
	}
	return seal(append(doc, "]}"...)), nil
}

// parse reads a file. A last line without an end was never acknowledged, nor was
// what a file system has left of zeros where it had no time to write: both are
// passed over. Anything else that cannot be read is damage.
func parse(data []byte, project string) (*loaded, error) {
	l := &loaded{}
	live := map[string]int64{}
	for number := 1; ; number++ {
		line, rest, whole := bytes.Cut(data[l.size:], []byte{'\n'})
		if !whole {
			break
		}
		err := l.read(line, project, live)
		if err != nil && number > 1 && torn(line, rest) {
			break
		}
		if errors.Is(err, spec.ErrConflict) {
			return nil, err
		}
		if err != nil {
			return nil, &damaged{number, err}
		}
		l.size += int64(len(line)) + 1
	}
	if l.graph == nil {
		return nil, &damaged{1, errors.New("it has no end")}
	}
	for _, n := range live {
		l.live += n
	}
	return l, nil
}

// torn tells whether a line that cannot be read is the end of what was being
// written when the machine stopped: with zeros in it, and without a good line
// behind it.
func torn(line, rest []byte) bool {
	if bytes.IndexByte(line, 0) < 0 && bytes.IndexByte(rest, 0) < 0 {
		return false
	}
	for next := range bytes.Lines(rest) {
		if _, err := unseal(bytes.TrimSuffix(next, []byte{'\n'})); err == nil {
			return false
		}
	}
	return true
}

// read takes up one line.
func (l *loaded) read(line []byte, project string, live map[string]int64) error {
	doc, err := unseal(line)
	if err != nil {
		return err
	}
	if l.graph == nil {
		return l.begin(doc, project)
	}
	var c entry
	if err := json.Unmarshal(doc, &c); err != nil {
		return err
	}
	if c.Seq != l.seq+1 {
		return fmt.Errorf("change %d follows change %d", c.Seq, l.seq)
	}
	for _, d := range c.Tasks {
		t, err := task.Decode(d)
		if err != nil {
			return err
		}
		l.graph.Load(t)
		live[t.ID] = int64(len(d))
	}
	l.seq = c.Seq
	return nil
}

func (l *loaded) begin(doc []byte, project string) error {
	var h header
	if err := json.Unmarshal(doc, &h); err != nil {
		return err
	}
	switch {
	case h.Version > version:
		return spec.Errorf(spec.ErrConflict, "the tasks were written by a newer Bothy (format %d, this one knows %d)", h.Version, version).WithHint("use the newer bothy")
	case h.Version < 1:
		return errors.New("it tells no version")
	case h.Project != project:
		return spec.Errorf(spec.ErrConflict, "these are the tasks of %q", h.Project)
	}
	l.graph, l.seq = task.NewGraph(), h.Seq
	return nil
}
