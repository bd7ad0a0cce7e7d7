package inspect

import (
	"errors"

	"github.com/bothy-dev/bothy/internal/policy"
)

// asksInBody judges a request anew whose body asks to be taken for another method. It returns the
// limit of its body.
func (i *Inspector) asksInBody(x *exchange) (limit int64, err error) {
	d, uses, err := x.conn.track.asksInBody(x, func(r *policy.Request) policy.Decision { return i.conf.Judge(x.conn.host, r) })
	switch {
	case err != nil:
		return 0, err
	case !d.Allowed():
		return 0, &otherMethod{policy.Denied{Decision: d}}
	}
	return d.MaxBody, x.secrets.AnyMethod(uses)
}

// otherMethod is the refusal of a request because of its body.
type otherMethod struct{ policy.Denied }

// errOtherUncounted is for a request that may pass, but only counted, and began uncounted.
var errOtherUncounted = errors.New("the body asks for another method, whose rule has max_upload, but the bytes of this request are not counted")
