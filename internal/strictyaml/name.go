package strictyaml

// IsName accepts a name for a part of a file that can occur in a line of any text: a letter, then
// letters, digits, - and _, at most 40 of them.
func IsName(s string) bool {
	if len(s) == 0 || len(s) > 40 {
		return false
	}
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '-' && c != '_') {
			return false
		}
	}
	return true
}
