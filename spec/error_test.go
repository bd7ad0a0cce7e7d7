package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

// TestExitCodes pins the exit codes. They are a promise to scripts: they change with a major
// version.
func TestExitCodes(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, 0},
		{"plain", errors.New("no"), 1},
		{"without a class", &Error{Op: "open x", Err: fs.ErrNotExist}, 1},
		{"usage", ErrUsage, 2},
		{"denied", Errorf(ErrDenied, "no"), 3},
		{"not found", fmt.Errorf("find it: %w", Errorf(ErrNotFound, "no x")), 4},
		{"conflict", &Error{Class: ErrConflict, Op: "create x"}, 5},
		{"stopping", Errorf(ErrStopping, "in a moment"), 5},
		{"timeout", Errorf(ErrTimeout, "over"), 124},
		{"sandbox", Errorf(ErrSandbox, "fell"), 125},
		{"not runnable", Errorf(ErrNotRunnable, "no"), 126},
		{"no such binary", Errorf(ErrNoSuchBinary, "no"), 127},
		{"the program's own", &Exited{Code: 42}, 42},
		{"ended by a signal", &Exited{Code: ExitSignal + 9}, 137},
		{"the program's own, wrapped", fmt.Errorf("run: %w", &Exited{Code: 3}), 3},
		{"joined", errors.Join(errors.New("a"), Errorf(ErrConflict, "b")), 5},
		{"a class below another error", &Error{Op: "start x", Err: Errorf(ErrDenied, "no")}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ExitCode(tt.err); got != tt.want {
				t.Errorf("ExitCode(%v) = %d, want %d", tt.err, got, tt.want)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	cause := errors.New("no space")
	tests := []struct {
		err  *Error
		want string
	}{
		{&Error{Op: "save x", Err: cause}, "save x: no space"},
		{&Error{Op: "save x"}, "save x"},
		{&Error{Err: cause}, "no space"},
		{&Error{Class: ErrDenied, Op: "save x", Err: cause, Hint: "free some"}, "save x: no space"},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("%#v reads %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestErrorIs(t *testing.T) {
	err := fmt.Errorf("run: %w", &Error{Class: ErrNotFound, Op: "open x", Err: fs.ErrNotExist})
	for _, want := range []error{ErrNotFound, fs.ErrNotExist} {
		if !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
	}
	if errors.Is(err, ErrDenied) {
		t.Errorf("%v is %v", err, ErrDenied)
	}
}

func TestHint(t *testing.T) {
	deep := Errorf(ErrDenied, "no").WithHint("ask %s", "root")
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"none", errors.New("no"), ""},
		{"its own", deep, "ask root"},
		{"below a wrapper", fmt.Errorf("a: %w", fmt.Errorf("b: %w", deep)), "ask root"},
		{"below an error without one", &Error{Op: "start", Err: deep}, "ask root"},
		{"joined", errors.Join(errors.New("a"), deep), "ask root"},
		{"nothing", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Hint(tt.err); got != tt.want {
				t.Errorf("Hint() = %q, want %q", got, tt.want)
			}
		})
	}
}

// TestWireRoundTrip checks that an error keeps its class, text, hint and exit code across a process
// boundary.
func TestWireRoundTrip(t *testing.T) {
	for _, class := range append([]error{nil}, ErrUsage, ErrDenied, ErrNotFound, ErrConflict, ErrStopping, ErrTimeout, ErrSandbox, ErrNotRunnable, ErrNoSuchBinary) {
		t.Run(fmt.Sprint(class), func(t *testing.T) {
			sent := fmt.Errorf("run: %w", &Error{Class: class, Op: "open\n\x1b[2J", Err: errors.New("naïve"), Hint: "do <this> & that"})
			b, err := json.Marshal(ToWire(sent))
			if err != nil {
				t.Fatal(err)
			}
			var w WireError
			if err := json.Unmarshal(b, &w); err != nil {
				t.Fatal(err)
			}
			got := w.Err()
			if got.Error() != sent.Error() || Hint(got) != Hint(sent) || ExitCode(got) != ExitCode(sent) || w.Code != ExitCode(sent) {
				t.Errorf("sent %q (%q, %d), got %q (%q, %d)", sent, Hint(sent), ExitCode(sent), got, Hint(got), ExitCode(got))
			}
			for _, c := range exits {
				if errors.Is(got, c.class) != errors.Is(sent, c.class) {
					t.Errorf("class %v: sent %t, got %t", c.class, errors.Is(sent, c.class), errors.Is(got, c.class))
				}
			}
			if again := ToWire(got); *again != w {
				t.Errorf("sent on it is %+v, was %+v", *again, w)
			}
		})
	}
}

// TestWireUnknownClass checks that a class that only a later version knows becomes a plain error.
func TestWireUnknownClass(t *testing.T) {
	err := (&WireError{Class: "melted", Code: 77, Message: "hot"}).Err()
	if err.Error() != "hot" || ExitCode(err) != ExitError {
		t.Errorf("%v, exit code %d", err, ExitCode(err))
	}
}
