package namepool

// Lower turns only the capital letters of ASCII in a host name into small ones, as DNS and OpenSSH
// do. strings.ToLower turns the Kelvin sign into a k, which makes another name.
func Lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] |= 0x20
		}
	}
	return string(b)
}
