package guest

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLookupWithoutServer(t *testing.T) {
	for host, want := range map[string]string{"127.0.0.1": "127.0.0.1", "[::1]": "::1", "::ffff:10.0.0.1": "10.0.0.1"} {
		list, err := lookup(host, time.Now())
		if err != nil || len(list) != 1 || list[0].String() != want {
			t.Errorf("%s is %v, %v", host, list, err)
		}
	}
	hosts := "127.0.0.1 localhost # box\n::1 localhost\n198.18.0.9\tDB.example.com db\nnonsense box\n10.0.0.1\n"
	for host, want := range map[string]int{"localhost": 2, "db.EXAMPLE.com": 1, "db": 1, "box": 0, "example.com": 0} {
		if list := inHostsFile(hosts, host); len(list) != want {
			t.Errorf("%s has the addresses %v", host, list)
		}
	}
	if list := nameServers("# nameserver 1.1.1.1\nnameserver 198.18.0.1\nnameserver x\nnameserver ::1\nnameserver 1.1.1.1\nnameserver 2.2.2.2\n"); len(list) != maxServers || list[0] != netip.MustParseAddr("198.18.0.1") {
		t.Errorf("servers %v", list)
	}
}

func TestQuestion(t *testing.T) {
	q, err := question("a.bc")
	if err != nil || !bytes.HasSuffix(q(recordAAAA), []byte("\x01a\x02bc\x00\x00\x1c\x00\x01")) {
		t.Errorf("%q, %v", q(recordAAAA), err)
	}
	for _, host := range []string{"", ".", "a..b", strings.Repeat("a", 64), strings.Repeat("abc.", 64) + "a"} {
		if _, err := question(host); err == nil {
			t.Errorf("%q is a name", host)
		}
	}
}

// answerTo makes an answer with records.
func answerTo(records ...[]byte) []byte {
	msg := []byte{0, 0, 0x81, 0x80, 0, 1, 0, byte(len(records)), 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1}
	return append(msg, bytes.Join(records, nil)...)
}

func recordOf(kind uint16, data ...byte) []byte {
	r := binary.BigEndian.AppendUint16([]byte{0xc0, 12}, kind)
	r = append(r, 0, 1, 0, 0, 0, 9)
	return append(binary.BigEndian.AppendUint16(r, uint16(len(data))), data...)
}

func TestAddressesIn(t *testing.T) {
	v6 := netip.MustParseAddr("2001:db8::1").As16()
	msg := answerTo(recordOf(5, 1, 'b', 0), recordOf(recordA, 198, 18, 0, 9), recordOf(recordA, 1, 2, 3), recordOf(recordAAAA, v6[:]...))
	list, err := addressesIn(msg, recordA)
	if err != nil || !slices.Equal(list, []netip.Addr{netip.MustParseAddr("198.18.0.9")}) {
		t.Errorf("%v, %v", list, err)
	}
	if list, err = addressesIn(msg, recordAAAA); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	many := make([][]byte, 100)
	for i := range many {
		many[i] = recordOf(recordA, 1, 2, 3, byte(i))
	}
	if list, err = addressesIn(answerTo(many...), recordA); err != nil || len(list) != maxAddresses {
		t.Errorf("%d addresses, %v", len(list), err)
	}
	for code, want := range map[byte]string{3: "no such host", 5: "refused", 2: "code 2"} {
		msg[3] = code
		if _, err := addressesIn(msg, recordA); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("code %d: %v", code, err)
		}
	}
}

func FuzzAddressesIn(f *testing.F) {
	f.Add(answerTo(recordOf(recordA, 1, 2, 3, 4)))
	f.Add([]byte{0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 0xc0})
	f.Fuzz(func(t *testing.T, msg []byte) {
		for n := range len(msg) + 1 {
			if list, _ := addressesIn(msg[:n], recordA); len(list) > maxAddresses {
				t.Errorf("%d addresses", len(list))
			}
		}
	})
}
