package spec

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckEnv(t *testing.T) {
	if err := CheckEnv([]string{"A=", "B=x=y", "M=a\nb", "U=naïve"}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "A", "=x", "A B=c", "A\t=b", "A\n=b", "A\x00=b", "A=key\x00", "A=key\xff", "\xff=key"} {
		if err := CheckEnv([]string{"A=b", bad}); !errors.Is(err, ErrUsage) || strings.Contains(err.Error(), "key") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
