package launch

import (
	"errors"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func TestReviewPlaceFree(t *testing.T) {
	for target, free := range map[string]bool{"/review": false, "/review/": false, "/review/outputs": false, "/reviews": true, "/home/me/review": true} {
		err := reviewPlaceFree(&spec.Sandbox{Volumes: []spec.Mount{{Target: target}}})
		if (err == nil) != free || err != nil && !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%s: %v", target, err)
		}
	}
}
