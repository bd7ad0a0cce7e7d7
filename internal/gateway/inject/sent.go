package inject

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// sent gives what the values are turned into where they are sent: with a user, base64 of
// user:value; in a query, what is escaped. Who has got that, and writes it in base64 or in
// hexadecimal, writes no spelling of the value itself.
func (l *loan) sent() (list []string) {
	for _, v := range l.values() {
		switch l.Place.Kind {
		case spec.PlaceBasic, spec.PlaceAuthorization:
			list = append(list, l.sentBasic(v)...)
		case spec.PlaceQuery:
			if escaped := url.QueryEscape(v); escaped != v {
				list = append(list, escaped)
			}
		}
	}
	return list
}

// sentBasic gives the digits of base64 that are about a value, whoever the user is: how long its
// name is tells where they begin, and the value may stand in its place.
func (l *loan) sentBasic(value string) (list []string) {
	if l.Place.User != "" {
		return []string{sentDigits("", l.Place.User+":"+value, "")}
	}
	for _, user := range []string{"", "x", "xx"} {
		list = append(list, sentDigits(user, ":"+value, ""))
	}
	return append(list, sentDigits("", value+":", "x"))
}

// sentDigits gives the digits of base64 that are about a text alone, of whatever it stands
// between.
func sentDigits(before, text, behind string) string {
	all := base64.RawStdEncoding.EncodeToString([]byte(before + text + behind))
	first, end := (8*len(before)+5)/6, len(all)
	if behind != "" {
		end = 8 * (len(before) + len(text)) / 6
	}
	return all[first:end]
}

// sentNeedles are needles for what sent gives. The mask leaves base64 what it is.
func (l *loan) sentNeedles() (list []needle) {
	for _, text := range l.sent() {
		list = append(list, needle{loan: l, text: text, mask: strings.Repeat("A", len(text))})
	}
	return list
}
