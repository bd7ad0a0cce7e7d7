package term

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReadSecret types a line that must not be shown.
func TestReadSecret(t *testing.T) {
	emulator, terminal := openPTY(t)
	before := makeUnusual(t, terminal)
	line, fails := make(chan string, 1), make(chan error, 1)
	go func() {
		b, err := ReadSecret(terminal, func() { // the answer comes together with the question
			if settings(t, terminal).Lflag&unix.ECHO != 0 {
				t.Error("the answer would be shown")
			}
			if _, err := emulator.WriteString("canary\r"); err != nil {
				t.Error(err)
			}
		})
		line <- string(b)
		fails <- err
	}()
	if got, err := <-line, <-fails; got != "canary\n" || err != nil {
		t.Errorf("it read %q, %v", got, err)
	}
	if after := settings(t, terminal); after != before {
		t.Errorf("the terminal is left as %+v, it was %+v", after, before)
	}
	if _, err := terminal.WriteString("."); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for b := make([]byte, 100); !bytes.HasSuffix(got, []byte(".")); {
		n, err := emulator.Read(b)
		if got = append(got, b[:n]...); err != nil {
			t.Fatalf("shown was %q, %v", got, err)
		}
	}
	if string(got) != "\r\n." {
		t.Errorf("shown was %q", got)
	}
}

func TestReadSecretElsewhere(t *testing.T) {
	emulator, terminal := openPTY(t)
	_ = emulator.Close()
	if b, err := ReadSecret(terminal, func() {}); err == nil {
		t.Errorf("from a terminal that is gone it read %q", b)
	}
	if b, err := ReadSecret(nil, func() {}); err == nil {
		t.Errorf("from nothing it read %q", b)
	}
}
