package trust

import "bytes"

// Renew updates a bundle that was made inside, possibly at an earlier start. It removes the authorities
// of all starts and adds the one of this start, given by its certificate in PEM.
func Renew(bundle, authority []byte) []byte {
	out := make([]byte, 0, len(bundle)+len(authority)+1)
	var der []byte
	for {
		b, rest, ok := nextBlock(bundle)
		if !ok {
			break
		}
		out = append(out, b.before...)
		if der, ok = b.decode(der[:0]); ok && bytes.Contains(der, []byte(CommonName)) {
			rest = bytes.TrimPrefix(rest, []byte("\n"))
		} else {
			out = append(out, b.text...)
		}
		bundle = rest
	}
	out = append(out, bundle...)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	return append(out, authority...)
}
