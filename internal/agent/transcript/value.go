package transcript

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"time"
)

// Bounds of one line. A value takes up to a hundred bytes of memory.
const (
	maxLine   = 16 << 20
	maxValues = 256 << 10
)

// Causes of unknown events.
const (
	causeNoRule = "no rule"
	causeNoJSON = "no JSON"
	causeLong   = "too long"
	causeMany   = "too many values"
	causeTorn   = "cut short"
)

// decode reads one JSON value. The cause tells why it cannot be read.
func decode(line []byte) (v any, cause string) {
	if values(line) > maxValues {
		return nil, causeMany
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, causeNoJSON
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, causeNoJSON
	}
	return v, ""
}

// values returns an upper bound of how many values a JSON value contains, without decoding it.
func values(text []byte) (n int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case ',', '[', '{':
			n++
		}
	}
	return n
}

func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil // a decoded value always encodes
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// timeOf reads a time: RFC 3339, or seconds or milliseconds since 1970. It returns the zero time for
// other values.
func timeOf(v any) (t time.Time) {
	switch v := v.(type) {
	case string:
		t, _ = time.Parse(time.RFC3339, v)
	case json.Number:
		n, err := v.Float64()
		if err != nil || !(n > 0 && n < maxMillis) {
			return t
		}
		if n < maxSeconds {
			n *= 1000
		}
		t = time.UnixMilli(int64(math.Round(n)))
	}
	if y := t.Year(); y < 1970 || y > 9999 { // JSON cannot represent other years
		return time.Time{}
	}
	return t.UTC()
}

// A number below maxSeconds counts as seconds: that is before the year 5138, and as milliseconds it
// would be before 1973.
const (
	maxSeconds = 100e9
	maxMillis  = 250e12
)
