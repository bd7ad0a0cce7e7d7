package spec

import (
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	tests := []struct {
		text string
		want int64
	}{
		{"", 0},
		{"1", 1},
		{"512", 512},
		{"1b", 1},
		{"1k", 1 << 10},
		{"1K", 1 << 10},
		{"1kb", 1 << 10},
		{"1KiB", 1 << 10},
		{"512m", 512 << 20},
		{"1.5g", 3 << 29},
		{"4G", 4 << 30},
		{"2t", 2 << 40},
		{".5k", 512},
		{"1e3", 1000},
	}
	for _, tt := range tests {
		if got, err := ParseSize(tt.text); got != tt.want || err != nil {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{"0", "0g", "-1", "-1g", "m", "b", "kib", "1x", "1mm", "1 g", "g1", "1,5g", "inf", "infg", "nan", "NaNg", "0.1", "0.0001k", "99999999t", "1e300", "0x", "٣m"} {
		if n, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d", text, n)
		}
	}
}

// TestSizeRoundTrip checks that ParseSize reads what FormatSize writes for a whole number of units.
func TestSizeRoundTrip(t *testing.T) {
	for _, n := range []int64{1, 512, 1 << 10, 3 << 20, 1 << 30, 5 << 40, 1536 << 20} {
		text := strings.ReplaceAll(FormatSize(n), " ", "")
		if got, err := ParseSize(text); got != n || err != nil {
			t.Errorf("%d is written %q and read %d, %v", n, text, got, err)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1: "1 B", 1023: "1023 B", 1536: "1.5 KiB", 1 << 50: "1024 TiB"} {
		if got := FormatSize(n); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestFormatCount(t *testing.T) {
	for noun, want := range map[string][2]string{
		"sandbox": {"1 sandbox", "2 sandboxes"}, "file": {"1 file", "2 files"}, "directory": {"1 directory", "2 directories"},
		"day": {"1 day", "2 days"}, "branch": {"1 branch", "2 branches"}, "process": {"1 process", "2 processes"}, "y": {"1 y", "2 ys"},
	} {
		if got := [2]string{FormatCount(1, noun), FormatCount(2, noun)}; got != want {
			t.Errorf("%s: %q", noun, got)
		}
	}
	if got := FormatCount(0, "file"); got != "0 files" {
		t.Error(got)
	}
}
