package wire

// ClockFamily is an address family that no system supports, so making a socket of it fails. A wall
// may take the attempt as a sign that time has passed since it began to run, or to run again,
// and that it can now compare its clock with the host's.
const ClockFamily = 0x626f
