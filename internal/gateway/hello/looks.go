package hello

// Numbers of TLS.
const (
	changeCipherSpec = 20
	alert            = 21
	handshake        = 22
	clientHello      = 1
	maxRecord        = 1 << 14
)

// Likeness is how far bytes are like the beginning of TLS.
type Likeness uint8

// The kinds of Likeness.
const (
	No    Likeness = iota
	Maybe          // they are too few to tell
	Yes
)

// Looks tells whether some server might take b for what a TLS client says first.
// Some pay no attention to versions (Go takes any below 16), pass over alerts, and
// over records with nothing in them. Of random bytes one in 2^28 looks so.
func Looks(b []byte) Likeness {
	ours := at(b, 1, func(major byte) bool { return major == 3 })
	var body Likeness
	switch {
	case len(b) == 0:
		return Maybe
	case b[0] == handshake:
		body = either(both(ours, exactly(b, 3, 0, 0)), message(b))
	case b[0] == alert:
		body = both(exactly(b, 3, 0), either(exactly(b, 4, 2), both(ours, exactly(b, 4, 1))))
	case b[0] == changeCipherSpec:
		body = both(ours, exactly(b, 3, 0, 1, 1))
	}
	return both(body, at(b, 1, func(major byte) bool { return major < 16 }))
}

// message tells whether a record holds the beginning of a ClientHello, which no
// server takes if it has more than 128 KiB.
func message(b []byte) Likeness {
	begin := both(at(b, 3, func(high byte) bool { return high <= maxRecord>>8 }), exactly(b, 5, clientHello))
	alone := exactly(b, 3, 0, 1)
	return both(begin, either(alone, at(b, 6, func(high byte) bool { return high <= 2 })))
}

// LooksAnywhere is Looks for what does not begin where a client began to speak:
// it is believed only if it has the versions that clients send.
func LooksAnywhere(b []byte) Likeness {
	return both(both(exactly(b, 0, handshake, 3), at(b, 2, func(minor byte) bool { return minor <= 4 })), Looks(b))
}

// Begins is Looks for the beginning of a connection, at which old servers
// understand the ClientHello of SSL 2, too.
func Begins(b []byte) Likeness {
	ssl2 := at(b, 0, func(high byte) bool { return high >= 0x80 && high <= 0x80|maxRecord>>8 })
	return either(Looks(b), both(ssl2, exactly(b, 2, clientHello, 3)))
}

// at tells whether one byte is as it should be.
func at(b []byte, i int, is func(byte) bool) Likeness {
	switch {
	case i >= len(b):
		return Maybe
	case is(b[i]):
		return Yes
	}
	return No
}

// exactly tells whether bytes stand at a place.
func exactly(b []byte, i int, want ...byte) Likeness {
	l := Yes
	for n, w := range want {
		l = both(l, at(b, i+n, func(is byte) bool { return is == w }))
	}
	return l
}

func both(a, b Likeness) Likeness   { return min(a, b) }
func either(a, b Likeness) Likeness { return max(a, b) }
