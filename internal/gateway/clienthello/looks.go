package clienthello

// Numbers of TLS.
const (
	changeCipherSpec = 20
	alert            = 21
	handshake        = 22
	clientHello      = 1
	maxRecord        = 1 << 14
)

// Likeness is how much bytes look like the beginning of TLS.
type Likeness uint8

// The kinds of Likeness.
const (
	No    Likeness = iota
	Maybe          // they are too few to tell
	Yes
)

// Looks reports whether some server might take b for a TLS client's first message. Some servers
// ignore versions (Go takes any below 16), skip alerts, and skip empty records. Of random bytes one
// in 2^28 looks so.
func Looks(b []byte) Likeness {
	ours := byteAt(b, 1, func(major byte) bool { return major == 3 })
	var body Likeness
	switch {
	case len(b) == 0:
		return Maybe
	case b[0] == handshake:
		body = either(bothLook(ours, exactly(b, 3, 0, 0)), message(b))
	case b[0] == alert:
		body = bothLook(exactly(b, 3, 0), either(exactly(b, 4, 2), bothLook(ours, exactly(b, 4, 1))))
	case b[0] == changeCipherSpec:
		body = bothLook(ours, exactly(b, 3, 0, 1, 1))
	}
	return bothLook(body, byteAt(b, 1, func(major byte) bool { return major < 16 }))
}

// message reports whether a record contains the beginning of a ClientHello. No server takes one of
// more than 128 KiB.
func message(b []byte) Likeness {
	begin := bothLook(byteAt(b, 3, func(high byte) bool { return high <= maxRecord>>8 }), exactly(b, 5, clientHello))
	alone := exactly(b, 3, 0, 1)
	return bothLook(begin, either(alone, byteAt(b, 6, func(high byte) bool { return high <= 2 })))
}

// LooksAnywhere is Looks for bytes in the middle of a client's stream: they must also have the
// versions that clients send.
func LooksAnywhere(b []byte) Likeness {
	return bothLook(bothLook(exactly(b, 0, handshake, 3), byteAt(b, 2, func(minor byte) bool { return minor <= 4 })), Looks(b))
}

// Begins is Looks for the beginning of a connection. Old servers understand the ClientHello of SSL
// 2 there, too.
func Begins(b []byte) Likeness {
	ssl2 := byteAt(b, 0, func(high byte) bool { return high >= 0x80 && high <= 0x80|maxRecord>>8 })
	return either(Looks(b), bothLook(ssl2, exactly(b, 2, clientHello, 3)))
}

// byteAt compares one byte.
func byteAt(b []byte, i int, is func(byte) bool) Likeness {
	switch {
	case i >= len(b):
		return Maybe
	case is(b[i]):
		return Yes
	}
	return No
}

// exactly compares the bytes at a place.
func exactly(b []byte, i int, want ...byte) Likeness {
	l := Yes
	for n, w := range want {
		l = bothLook(l, byteAt(b, i+n, func(is byte) bool { return is == w }))
	}
	return l
}

func bothLook(a, b Likeness) Likeness { return min(a, b) }
func either(a, b Likeness) Likeness   { return max(a, b) }
