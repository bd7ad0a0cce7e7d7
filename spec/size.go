package spec

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseSize parses a number of bytes with an optional unit: b, k, m, g, t, also as kb and kib, all
// powers of 1024. The empty string is zero.
func ParseSize(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	t := strings.ToLower(s)
	t = strings.TrimSuffix(strings.TrimSuffix(t, "b"), "i")
	shift := 0
	if n := len(t); n > 0 {
		if i := strings.IndexByte("kmgt", t[n-1]); i >= 0 {
			shift, t = 10*(i+1), t[:n-1]
		}
	}
	f, err := strconv.ParseFloat(t, 64)
	bytes := f * float64(int64(1)<<shift)
	if err != nil || !(bytes >= 1 && bytes <= 1<<62) { // NaN fails too
		return 0, fmt.Errorf("%q is not a size; write it like 512m or 4g", s)
	}
	return int64(bytes), nil
}

// FormatSize formats bytes for a person.
func FormatSize(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 || f == float64(int64(f)) {
		return fmt.Sprintf("%.0f %s", f, units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// FormatCount writes a number with its noun: "1 sandbox", "2 sandboxes". The noun is the regular singular.
func FormatCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	plural := noun + "s"
	base, isY := strings.CutSuffix(noun, "y")
	switch {
	case isY && base != "" && !strings.ContainsAny(base[len(base)-1:], "aeiou"):
		plural = base + "ies"
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "x"), strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "sh"):
		plural = noun + "es"
	}
	return strconv.Itoa(n) + " " + plural
}
