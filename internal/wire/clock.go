package wire

// ClockFamily is an address family that no system has: whoever asks for a socket of it is
// told so. A wall may take that for the sign that time has passed since it began to run, or
// to run again, and that its clock can be compared with the host's.
const ClockFamily = 0x626f
