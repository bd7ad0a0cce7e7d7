package role

import (
	"runtime"
	"testing"
)

func TestNobodyIsProfiled(t *testing.T) {
	if rate := runtime.MemProfileRate; rate != 0 {
		t.Errorf("every %d bytes Go notes who allocates them, which nobody looks at", rate)
	}
}
