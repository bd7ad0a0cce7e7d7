package gateway

import "math"

// nameBits is what any name is charged: which letters it has, how long it is,
// and that it is asked for at all, are bits, too.
const nameBits = 16

// bits is about how much the part of a name below its zone can tell: the
// entropy of its letters, as often as they occur. A word says little, a
// counter less, an encoded secret all it can hold.
func bits(below string) float64 {
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
