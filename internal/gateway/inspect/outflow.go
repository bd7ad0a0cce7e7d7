package inspect

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/spec"
)

// stopSpent answers a request that may send no more.
func (i *Inspector) stopSpent(w http.ResponseWriter, r *http.Request, x *exchange) {
	if err := x.trip.Outflow.Err(); !errors.Is(err, uploadlimit.ErrSpent) {
		i.turnAway(w, r, x, http.StatusServiceUnavailable, err)
		return
	}
	i.noteSpent(x)
	i.denyRequest(w, r, &x.decision)
}

// noteSpent notes that a request was stopped because its budget was used up. The budget may have
// changed since the request was allowed.
func (i *Inspector) noteSpent(x *exchange) {
	err := x.trip.Outflow.Err()
	if err == nil || x.record.Verdict == spec.VerdictDeny {
		return
	}
	if errors.Is(err, uploadlimit.ErrSpent) {
		now := i.conf.Judge(x.conn.host, &x.request)
		if now.Allowed() { // its budget has room again
			now = x.decision.UsedUp(x.trip.Outflow.Sent())
		}
		x.decision = now
		x.refuse(x.decision.Reason())
		return
	}
	x.refuse(err.Error())
}

// endSpent ends a call of gRPC that may send no more. It returns false if the call did not end for
// that.
func (i *Inspector) endSpent(r *http.Request, x *exchange) bool {
	if x.trip.Outflow.Err() == nil || r.ProtoMajor != 2 || !isGRPC(r) || x.record.Status == 0 {
		return false
	}
	i.noteSpent(x)
	h := x.w.Header()
	h[http.TrailerPrefix+"Grpc-Status"] = []string{strconv.Itoa(grpcResourceExhausted)}
	h[http.TrailerPrefix+"Grpc-Message"] = []string{escapeGRPC("bothy: " + x.record.Reason)}
	return true
}
