package modelserver

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/bothy-dev/bothy/internal/modelscript"
)

// trouble is a failure at a point in time.
type trouble struct {
	modelscript.Failure
	now time.Time
}

// errorType returns the type of the error: the script's, the provider's for the status, or the provider's
// general one for errors of the client or of the server.
func (f trouble) errorType(known map[int]string, theirs, ours string) string {
	switch {
	case f.Type != "":
		return f.Type
	case known[f.Status] != "":
		return known[f.Status]
	case f.Status < 500:
		return theirs
	}
	return ours
}

func (f trouble) errorText() string {
	switch {
	case f.Message != "":
		return f.Message
	case http.StatusText(f.Status) != "":
		return http.StatusText(f.Status)
	case f.Status == 529:
		return "Overloaded"
	}
	return fmt.Sprintf("Status %d", f.Status)
}

// resets returns the time when the limit resets.
func (f trouble) resets() time.Time {
	if f.Limit == nil {
		return time.Time{}
	}
	return f.now.Add(time.Duration(f.Limit.Resets))
}

// seconds returns d in whole seconds, rounded up.
func seconds(d modelscript.Duration) int64 {
	return int64((time.Duration(d) + time.Second - 1) / time.Second)
}

// replyFor returns the failure as an answer of the provider.
func (f trouble) replyFor(p api) reply {
	body, header := p.failure(f)
	out := reply{status: f.Status, header: header, body: encode(body)}
	if f.Body != "" {
		out.body = []byte(f.Body)
	}
	if f.RetryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(seconds(f.RetryAfter), 10))
	}
	for k, v := range f.Headers {
		header.Set(k, v)
	}
	return out
}

// refuse returns an error that the script did not ask for.
func refuse(p api, status int, format string, args ...any) reply {
	f := trouble{Failure: modelscript.Failure{Status: status, Message: clipText(fmt.Sprintf(format, args...), 2*maxTold)}}
	out := f.replyFor(p)
	out.why = f.Message
	return out
}
