package namelimit

import "math"

// nameBits is charged for any name: its letters, its length, and the question itself carry bits,
// too.
const nameBits = 16

// bitsOf estimates how much data the part of a name below its zone can carry: the entropy of its
// letters, by their frequency. A word carries little, a counter less, an encoded secret as much as fits.
func bitsOf(below string) float64 {
	var count [256]float64
	n := 0.0
	for i := range len(below) {
		if below[i] != '.' {
			count[below[i]]++
			n++
		}
	}
	total := float64(nameBits)
	for _, c := range count {
		if c > 0 {
			total += c * math.Log2(n/c)
		}
	}
	return total
}
