package vault

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// crashVar names the directory in which this binary, started again, changes a vault until it is killed.
const crashVar = "BOTHY_TEST_VAULT_CRASH"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashVar); dir != "" {
		for i := 0; ; i++ {
			if err := put(Vault{Dir: dir}, "rolling", fmt.Sprint("$VALUE_", i)); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			if i == 0 {
				fmt.Println("going")
			}
		}
	}
	os.Exit(m.Run())
}

func put(v Vault, name, service string) error {
	c, err := v.Begin()
	if err != nil {
		return err
	}
	defer c.End()
	c.Put(Secret{Name: name, Service: service, Source: Source{Kind: SourceFile, Path: "/" + strings.Repeat("x", 4000)}})
	return c.Save()
}

// TestKilledWriter checks that after a kill of a writer at any time the document is whole, and the next
// one can write.
func TestKilledWriter(t *testing.T) {
	v := Vault{Dir: filepath.Join(t.TempDir(), "secrets")}
	if err := put(v, "steady", "npm"); err != nil {
		t.Fatal(err)
	}
	for round := range 20 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), crashVar+"="+v.Dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if b := make([]byte, 6); true {
			if _, err := out.Read(b); err != nil || string(b[:5]) != "going" {
				t.Fatalf("%q, %v", b, err)
			}
		}
		time.Sleep(time.Duration(round) * 300 * time.Microsecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		d, err := v.Read()
		if err != nil || len(d.Secrets) != 2 {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if err := put(v, "last", ""); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(v.Dir, ".tmp-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestConcurrentChanges(t *testing.T) {
	v := Vault{Dir: filepath.Join(t.TempDir(), "secrets")}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if err := put(v, fmt.Sprint("s", i), ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if d, err := v.Read(); err != nil || len(d.Secrets) != 16 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestCorrupted checks that a document that this package did not write is refused and left alone.
func TestCorrupted(t *testing.T) {
	good := `{"version":1,"secrets":[{"name":"a","source":{"kind":"file","path":"/x"},"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}]}`
	v := Vault{Dir: t.TempDir()}
	write := func(text string) {
		if err := os.WriteFile(v.document(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(good)
	if d, err := v.Read(); err != nil || len(d.Secrets) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	for name, text := range map[string]string{
		"empty": "", "null": "null", "half": good[:len(good)/2], "two": good + good, "no version": `{"secrets":[]}`,
		"newer":           strings.Replace(good, `"version":1`, `"version":2`, 1),
		"unknown":         strings.Replace(good, `"version":1`, `"version":1,"x":1`, 1),
		"twice":           strings.Replace(good, `[{`, `[{"name":"a","source":{"kind":"file","path":"/x"}},{`, 1),
		"no source":       strings.Replace(good, `"kind":"file",`, "", 1),
		"a value too few": strings.Replace(good, `"kind":"file","path":"/x"`, `"kind":"stored"`, 1),
		"a bad name":      strings.Replace(good, `"name":"a"`, `"name":"../a"`, 1),
	} {
		write(text)
		if d, err := v.Read(); err == nil {
			t.Errorf("%s reads as %+v", name, d)
		}
		if err := put(v, "b", ""); err == nil {
			t.Errorf("%s was replaced", name)
		}
		if got, err := os.ReadFile(v.document()); err != nil || string(got) != text {
			t.Errorf("%s is now %q, %v", name, got, err)
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "github", "ANTHROPIC_API_KEY", "my.key-2", strings.Repeat("n", 64)} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "-a", ".a", "a b", "a/b", "é", "a\n", key("ghp_", 40), key("sk-ant-api03-", 40), strings.Repeat("n", 65)} {
		err := CheckName(name)
		if !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", name, err)
		} else if len(name) >= 40 && strings.Contains(err.Error()+spec.Hint(err), name) {
			t.Errorf("what looks like a secret is repeated: %v", err)
		}
	}
}

func TestCleanValue(t *testing.T) {
	for in, want := range map[string]string{"12345678": "12345678", "12345678\n": "12345678", "12345678\r\n": "12345678", "with space": "with space"} {
		if got, err := CleanValue([]byte(in)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "\n", "short", "1234\n5678", "1234\x005678", " 12345678", "12345678é", strings.Repeat("x", maxValue+1)} {
		got, err := CleanValue([]byte(in))
		if err == nil {
			t.Errorf("%q: %q", in, got)
		} else if len(in) > 4 && strings.Contains(err.Error(), in) {
			t.Errorf("the value is repeated: %v", err)
		}
	}
}
