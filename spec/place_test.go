package spec

import (
	"errors"
	"testing"
)

func TestPlaceCheck(t *testing.T) {
	for _, p := range []Place{
		{Kind: PlaceBearer},
		{Kind: PlaceBasic},
		{Kind: PlaceBasic, User: "__token__"},
		{Kind: PlaceHeader, Name: "X-Api-Key"},
		{Kind: PlaceHeader, Name: "authorization"},
		{Kind: PlaceQuery, Name: "api_key"},
		{Kind: PlaceAuthorization},
	} {
		if err := p.Check(); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
	refused := []Place{
		{},
		{Kind: "cookie", Name: "x"},
		{Kind: PlaceBearer, Name: "x"},
		{Kind: PlaceBearer, User: "me"},
		{Kind: PlaceBasic, Name: "x"},
		{Kind: PlaceAuthorization, User: "me"},
		{Kind: PlaceBasic, User: "a:b"},
		{Kind: PlaceBasic, User: "a b"},
		{Kind: PlaceBasic, User: "a\r\nb"},
		{Kind: PlaceHeader},
		{Kind: PlaceHeader, Name: "x y"},
		{Kind: PlaceHeader, Name: "x: y\r\nz"},
		{Kind: PlaceHeader, Name: "ſ"}, // a letter, but not in ASCII
		{Kind: PlaceHeader, Name: "x-key", User: "me"},
		{Kind: PlaceQuery},
		{Kind: PlaceQuery, Name: "a=b"},
		{Kind: PlaceQuery, Name: "a&b"},
		{Kind: PlaceQuery, Name: "a%62"},
		// Headers of the message itself, of the connection, and of proxies.
		{Kind: PlaceHeader, Name: "Host"},
		{Kind: PlaceHeader, Name: "CONTENT-LENGTH"},
		{Kind: PlaceHeader, Name: "Content-Encoding"},
		{Kind: PlaceHeader, Name: "Content-Type"},
		{Kind: PlaceHeader, Name: "Proxy-Authorization"},
		{Kind: PlaceHeader, Name: "Proxy-Connection"},
		{Kind: PlaceHeader, Name: "Accept-Encoding"},
		{Kind: PlaceHeader, Name: "Sec-WebSocket-Key"},
		{Kind: PlaceHeader, Name: "If-Range"},
		{Kind: PlaceHeader, Name: "Date"},
	}
	for _, p := range refused {
		if err := p.Check(); !errors.Is(err, ErrUsage) {
			t.Errorf("%+v: %v, want it refused", p, err)
		}
	}
}
