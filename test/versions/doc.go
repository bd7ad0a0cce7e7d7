// Package versions tests state across versions of Bothy: this build loads what three named older
// commits wrote. It refuses what a newer Bothy wrote, and leaves it unchanged.
package versions
