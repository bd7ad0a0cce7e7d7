package wire

// ClockFamily is an address family that no system supports, so making a socket of it fails. A wall may
// take the attempt as a sign that it has been running for a while, since its start or its resumption,
// and that it can now compare its clock with the host's.
const ClockFamily = 0x626f
