package audit

import "time"

// KindDropped is the kind of the event that tells how many bytes of the log were lost before it, in its
// field "bytes".
const KindDropped = "log.dropped"

// loss counts bytes that could not be written and were not reported yet.
type loss struct {
	bytes   int64
	ongoing bool
}

// addBytes counts n lost bytes and reports whether they begin a new row of losses.
func (l *loss) addBytes(n int) (first bool) {
	first = !l.ongoing
	l.bytes += int64(n)
	l.ongoing = true
	return first
}

// noteLine returns the line that tells how much was lost, or nothing.
func (l *loss) noteLine(now time.Time) []byte {
	if l.bytes == 0 {
		return nil
	}
	line, err := encode(now, KindDropped, map[string]any{"bytes": l.bytes})
	if err != nil {
		return nil // encoding a number cannot fail
	}
	return line
}

// clearNoted records that the note is on the disk.
func (l *loss) clearNoted() { l.bytes = 0 }

// endLoss records that writing works again.
func (l *loss) endLoss() { l.bytes, l.ongoing = 0, false }
