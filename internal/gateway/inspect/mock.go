package inspect

import (
	"context"
	"net/http"

	"github.com/bothy-dev/bothy/internal/policy"
)

// playMock passes a request to the handler that plays its server. The request goes nowhere else: no
// policy is asked, and placeholders of secrets stay as they are. A body may be as long as the player
// reads.
func (i *Inspector) playMock(ctx context.Context, w *answer, r *http.Request, x *exchange, player http.Handler) {
	if err := i.closed(); err != nil {
		i.turnAway(w, r, x, http.StatusServiceUnavailable, err)
		return
	}
	if !i.metered(w, r, x) {
		return
	}
	r = r.WithContext(ctx)
	b := &body{ReadCloser: r.Body, x: x, limit: policy.NoLimit}
	if r.ContentLength != 0 {
		b.sent = i.conf.Sent
	}
	r.Body = b
	tellContinue(w, r)
	player.ServeHTTP(w, r)
}
