// Package credentialtest prepares a host with logins and secrets for tests.
package credentialtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The tokens of the login that [SignIn] writes.
const (
	Access  = "sk-ant-oat01-CANARYCANARYCANARY0123456789"
	Refresh = "sk-ant-ort01-CANARYCANARYCANARY9876543210"
)

// variables are those that agents read logins and keys from.
var variables = []string{
	"CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "GH_CONFIG_DIR",
	"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "OPENAI_BASE_URL", "GH_HOST", "COPILOT_GH_HOST", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY",
	"GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY", "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN",
}

// SignIn gives the test a home directory in which a user of claude has logged in, and an environment
// without keys. It returns the file of the login.
func SignIn(t testing.TB) (path string) {
	t.Helper()
	home := t.TempDir()
	for _, name := range variables {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	path = filepath.Join(home, ".claude/.credentials.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"claudeAiOauth":{"accessToken":%q,"refreshToken":%q,"expiresAt":%d,"scopes":["user:inference"],"subscriptionType":"max"},"mcpOAuth":{"x":"CANARY"}}`,
		Access, Refresh, time.Now().Add(time.Hour).UnixMilli())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// PutHome writes a file into the home directory.
func PutHome(t testing.TB, name, text string, mode os.FileMode) {
	t.Helper()
	file := filepath.Join(os.Getenv("HOME"), name)
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, []byte(text), mode)
	}
	if err == nil {
		err = os.Chmod(file, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// NowhereIn checks that no file below a directory contains a text.
func NowhereIn(t testing.TB, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), text) {
			t.Errorf("%s has it: %s", path, b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
