package run

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// TestRaises checks that the last value of each changed limit counts, and that the others stay.
func TestRaises(t *testing.T) {
	_, r := begun(t)
	h, events, err := r.Host()
	must(t, err)
	defer h.Close()
	if l, err := Raises(events); l != nil || err != nil {
		t.Fatalf("%+v, %v", l, err)
	}
	tokens, more, usd, hours, n := int64(10), int64(0), 1.5, spec.Duration(8*time.Hour), 40
	for _, l := range []Limits{{Tokens: &tokens, Time: &hours}, {Tokens: &more, USD: &usd}, {Iterations: &n}} {
		_, err := h.Append(Raised, "me", l)
		must(t, err)
	}
	events, err = r.Events()
	must(t, err)
	l, err := Raises(events)
	if want := (&Limits{Tokens: &more, USD: &usd, Time: &hours, Iterations: &n}); err != nil || !reflect.DeepEqual(l, want) {
		t.Errorf("%+v, %v", l, err)
	}
	had := struct {
		time   spec.Duration
		tokens int64
		usd    float64
	}{1, 2, 3}
	if l.Set(&had.time, &had.tokens, &had.usd); had.time != hours || had.tokens != 0 || had.usd != usd {
		t.Errorf("they are %v", had)
	}
	had.usd = 3
	if (&Limits{}).Set(&had.time, &had.tokens, &had.usd); had.usd != 3 {
		t.Errorf("what was not set is %v", had)
	}
	if _, err := Raises([]Event{{Seq: 1, Type: Raised, Data: json.RawMessage(`{"tokens":"many"}`)}}); err == nil {
		t.Error("what cannot be read is read")
	}
}
