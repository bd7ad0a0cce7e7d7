package inject

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// sentForms returns the forms in which the values are sent: with a user, base64 of user:value; in a
// query, the escaped value. A receiver that writes such a form in base64 or hexadecimal does not
// write the value itself in any spelling.
func (l *loan) sentForms() (list []string) {
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

// sentBasic returns the base64 digits that encode a value, for any user. The length of the user's
// name decides where they begin. The value may also be in the user's place.
func (l *loan) sentBasic(value string) (list []string) {
	if l.Place.User != "" {
		return []string{sentDigits("", l.Place.User+":"+value, "")}
	}
	for _, user := range []string{"", "x", "xx"} {
		list = append(list, sentDigits(user, ":"+value, ""))
	}
	return append(list, sentDigits("", value+":", "x"))
}

// sentDigits returns the base64 digits that encode only a text, whatever text surrounds it.
func sentDigits(before, text, behind string) string {
	all := base64.RawStdEncoding.EncodeToString([]byte(before + text + behind))
	first, end := (8*len(before)+5)/6, len(all)
	if behind != "" {
		end = 8 * (len(before) + len(text)) / 6
	}
	return all[first:end]
}

// sentNeedles returns needles for the results of sent. The mask keeps base64 valid.
func (l *loan) sentNeedles() (list []needle) {
	for _, text := range l.sentForms() {
		list = append(list, needle{loan: l, text: text, mask: strings.Repeat("A", len(text))})
	}
	return list
}
