// Package faults kills, stops, starves and damages real sandboxes at every stage of their life. It
// checks from the host that the next command works or explains the failure, that nothing is left behind,
// and that no acknowledged data is lost.
//
// Moments are random where necessary; every test with random choices logs its seed, and BOTHY_FAULT_SEED
// repeats it.
//
// The machine's clock is never changed: times in files simulate a jump.
package faults
