// Package versions tests state across versions of Bothy: what three named older commits wrote is
// loaded by this build, and what a newer Bothy wrote is refused and left as it is.
package versions
