// Package versions tests state across versions of Bothy: this build loads state that three named older
// commits wrote. It rejects state that a newer Bothy wrote, and leaves it unchanged.
package versions
