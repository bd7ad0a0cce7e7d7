package doctor

import (
	"net"
	"testing"
)

func TestHosts(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	gone, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	checks := Hosts(t.Context(), nil, []string{l.Addr().String(), gone.Addr().String()})
	if len(checks) != 2 || checks[0].Result != OK || checks[0].Name != "host "+l.Addr().String() {
		t.Errorf("%+v", checks)
	}
	if checks[1].Result != Warn || checks[1].Fix == "" {
		t.Errorf("%+v", checks[1])
	}
}
