package cmdline

import (
	"bytes"
	"fmt"
	"time"

	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// passphrase asks for that of the vault.
func (a *App) passphrase(fresh bool) ([]byte, error) {
	if !a.CanAsk() {
		return nil, nil
	}
	a.asking.Lock() // one question at a time
	defer a.asking.Unlock()
	text, err := a.AskSecret("passphrase of the secrets")
	if err != nil || !fresh {
		return text, err
	}
	again, err := a.AskSecret("the same again")
	if err == nil && !bytes.Equal(text, again) {
		err = spec.Errorf(spec.ErrUsage, "the two passphrases differ")
	}
	return text, err
}

// AskSecret asks for a line that is not shown.
func (a *App) AskSecret(what string) ([]byte, error) {
	line, err := term.ReadSecret(a.In, func() { fmt.Fprintf(a.Err, "bothy: %s: ", what) })
	return bytes.TrimRight(line, "\r\n"), err
}

// Life is how long a lease lasts, as a flag; 0: until it is revoked.
type Life time.Duration

const forever = "forever"

// String implements pflag.Value.
func (l *Life) String() string {
	if *l == 0 {
		return forever
	}
	return time.Duration(*l).String()
}

// Type implements pflag.Value.
func (l *Life) Type() string { return "time" }

// Set implements pflag.Value. It reads a duration, or "forever".
func (l *Life) Set(word string) error {
	if *l = 0; word == forever {
		return nil
	}
	d, err := time.ParseDuration(word)
	if err != nil || d <= 0 {
		return fmt.Errorf("a lease cannot last %q: write e.g. 8h, or %s", word, forever)
	}
	*l = Life(d)
	return nil
}
