package inspect

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// limit reads an answer that reports too many requests or an overloaded server. Its zero value is
// for any other answer.
type limit struct {
	spec.Limited
	tell func(spec.Limited)
	body []byte // its beginning, if the head gives no time
	more bool   // the body is read
}

// maxRefusal is how many bytes of such an answer are read. They are short.
const maxRefusal = 16 << 10

// statusOverloaded is Anthropic's status for it.
const statusOverloaded = 529

// headed looks at the head of the answer, which is the server's own.
func (b *bill) headed(host string, status int, h http.Header) {
	if b.tally == nil {
		return
	}
	switch status {
	case http.StatusTooManyRequests:
		b.limit.tell = b.tally.Limited
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, statusOverloaded:
		b.limit.tell = b.tally.Overloaded
	case http.StatusUpgradeRequired: // the client should ask in another way
		return
	default:
		b.tally.Answered(host)
		if status >= http.StatusBadRequest {
			b.tally.Failed(spec.Limited{At: time.Now().UTC(), Host: host, Status: status})
		}
		return
	}
	now := time.Now().UTC()
	b.limit.Limited = spec.Limited{At: now, Host: host, Until: retryTime(h, now), Status: status}
	b.limit.more = b.limit.Until.IsZero()
	b.limit.tell(b.limit.Limited)
}

func (l *limit) readBody(p []byte) {
	if l.more {
		l.body = append(l.body, p[:min(len(p), maxRefusal-len(l.body))]...)
	}
}

// endLimit looks for the time in the body, if the head had none.
func (l *limit) endLimit() {
	if !l.more {
		return
	}
	if until := againIn(l.body, l.At); !until.IsZero() {
		l.Until = until
		l.tell(l.Limited)
	}
	*l = limit{}
}

// retryTime returns the time at which a server wants to be asked again. It knows all the ways in which
// model providers write it in the head of an answer, and returns zero without one.
func retryTime(h http.Header, now time.Time) time.Time {
	for _, name := range []string{"Anthropic-Ratelimit-Unified-Reset", "X-Codex-Primary-Reset-At"} {
		if at, err := strconv.ParseInt(h.Get(name), 10, 64); err == nil {
			return soonTime(time.Unix(at, 0), now)
		}
	}
	for _, name := range []string{"Retry-After", "X-Codex-Primary-Reset-After-Seconds"} {
		if s, err := strconv.ParseInt(h.Get(name), 10, 32); err == nil && s >= 0 {
			return soonTime(now.Add(time.Duration(s)*time.Second), now)
		}
	}
	at, err := http.ParseTime(h.Get("Retry-After"))
	if err != nil {
		return time.Time{}
	}
	return soonTime(at, now)
}

// toomuch is the relevant part of such bodies: OpenAI's for a subscription, and Google's, which may
// be a list of one.
type toomuch struct {
	Error struct {
		ResetsAt int64   `json:"resets_at"`
		ResetsIn float64 `json:"resets_in_seconds"`
		Details  []struct {
			RetryDelay string `json:"retryDelay"`
		} `json:"details"`
	} `json:"error"`
}

// againIn is again for a body.
func againIn(body []byte, now time.Time) time.Time {
	var one toomuch
	if list := []toomuch{}; bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		if json.Unmarshal(body, &list) != nil || len(list) == 0 {
			return time.Time{}
		}
		one = list[0]
	} else if json.Unmarshal(body, &one) != nil {
		return time.Time{}
	}
	e := one.Error
	if e.ResetsAt > 0 {
		return soonTime(time.Unix(e.ResetsAt, 0), now)
	}
	if e.ResetsIn > 0 && e.ResetsIn <= maxPause.Seconds() {
		return soonTime(now.Add(time.Duration(e.ResetsIn*float64(time.Second))), now)
	}
	for _, d := range e.Details {
		if delay, err := time.ParseDuration(d.RetryDelay); err == nil && delay >= 0 {
			return soonTime(now.Add(delay), now)
		}
	}
	return time.Time{}
}

// maxPause is the longest believable pause: allowances are for a month at most.
const maxPause = 32 * 24 * time.Hour

func soonTime(at, now time.Time) time.Time {
	if at.Before(now) || at.Sub(now) > maxPause {
		return time.Time{}
	}
	return at.UTC()
}
