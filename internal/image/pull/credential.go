package pull

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// credential is a login for a registry. Its zero value is anonymous.
type credential struct {
	user, password string
	identity       string // a token with which to get others, instead of a password
	access         string // a token that is used as it is
}

// dockerConfig has the fields of Docker's login configuration that are used.
type dockerConfig struct {
	Auths       map[string]dockerAuth `json:"auths"`
	Helpers     map[string]string     `json:"credHelpers"`
	Store       string                `json:"credsStore"`
	description string                // where the configuration was read from
}

type dockerAuth struct {
	Auth          string `json:"auth"` // USER:PASSWORD in base64
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// credentialFor finds the login that the caller's Docker or Podman uses for a registry. If the
// configuration is unreadable or a helper fails, it returns an error: it never continues anonymously.
func credentialFor(ctx context.Context, paths *hostpath.Guard, registry string) (credential, error) {
	c, err := readDockerConfig()
	if err != nil {
		return credential{}, err
	}
	for _, key := range keysOf(registry) {
		if helper := c.Helpers[key]; helper != "" {
			return askHelper(ctx, paths, helper, key)
		}
	}
	if c.Store != "" {
		return askHelper(ctx, paths, c.Store, keysOf(registry)[0])
	}
	for _, key := range keysOf(registry) {
		if a, ok := c.Auths[key]; ok {
			return a.credential(c.description)
		}
	}
	return credential{}, nil
}

// keysOf returns the names that a registry may have in the configuration, the usual one first.
func keysOf(registry string) []string {
	keys := []string{registry, "https://" + registry, "http://" + registry, "https://" + registry + "/v1/", "https://" + registry + "/v2/"}
	if registry == hub {
		keys = append([]string{"https://index.docker.io/v1/", "index.docker.io"}, keys...)
	}
	return keys
}

// hub is Docker Hub, as references name it.
const hub = "docker.io"

func readDockerConfig() (dockerConfig, error) {
	for _, file := range configFiles() {
		text, err := store.ReadFile(file, 0, maxDockerConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		c := dockerConfig{description: file}
		if err == nil {
			err = json.Unmarshal(text, &c)
		}
		if err != nil {
			return c, spec.Errorf(spec.ErrUsage, "read the logins of %s: %w", file, err)
		}
		return c, nil
	}
	return dockerConfig{}, nil
}

// configFiles returns the paths where Docker and Podman keep logins.
func configFiles() (files []string) {
	home, _ := store.Home()
	if dir := cmp.Or(os.Getenv("DOCKER_CONFIG"), home+"/.docker"); filepath.IsAbs(dir) {
		files = append(files, filepath.Join(dir, "config.json"))
	}
	if file := os.Getenv("REGISTRY_AUTH_FILE"); file != "" {
		files = append(files, file)
	}
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), cmp.Or(os.Getenv("XDG_CONFIG_HOME"), home+"/.config")} {
		if filepath.IsAbs(dir) {
			files = append(files, filepath.Join(dir, "containers", "auth.json"))
		}
	}
	return files
}

func (a dockerAuth) credential(where string) (credential, error) {
	c := credential{user: a.Username, password: a.Password, identity: a.IdentityToken, access: a.RegistryToken}
	if a.Auth == "" {
		return c, nil
	}
	text, err := base64.StdEncoding.DecodeString(a.Auth)
	user, password, ok := strings.Cut(string(text), ":")
	if err != nil || !ok {
		return c, spec.Errorf(spec.ErrUsage, "a login in %s cannot be read", where)
	}
	c.user, c.password = user, strings.TrimRight(password, "\x00")
	return c, nil
}

// tokenUser is the user name with which helpers return tokens instead of passwords.
const tokenUser = "<token>"

// noCredential is the answer of a helper without a login. It is not a failure.
const noCredential = "credentials not found in native keychain"

// helperDelay is how long a helper's child processes may keep its output open after the
// helper has ended.
const helperDelay = time.Second

// askHelper runs the program that Docker would run.
func askHelper(ctx context.Context, paths *hostpath.Guard, name, registry string) (credential, error) {
	program := "docker-credential-" + name
	failed := func(err error) error {
		return spec.Errorf(spec.ErrDenied, "ask %s for the login of %s: %w", program, registry, err).
			WithHint("see that it works, or log in without it: it is named in Docker's config.json")
	}
	if strings.ContainsAny(name, "/\x00") {
		return credential{}, failed(errors.New("a program cannot have this name"))
	}
	var out, said bytes.Buffer
	cmd, err := paths.Command(ctx, program, "get")
	if err != nil {
		return credential{}, failed(err)
	}
	cmd.WaitDelay = helperDelay
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(registry), &out, &said
	if err := cmd.Run(); err != nil {
		words := strings.TrimSpace(out.String() + " " + said.String())
		if strings.Contains(words, noCredential) {
			return credential{}, nil
		}
		return credential{}, failed(fmt.Errorf("%w %.200s", err, words))
	}
	var answer struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return credential{}, failed(errors.New("its answer cannot be read"))
	}
	if answer.Username == tokenUser {
		return credential{identity: answer.Secret}, nil
	}
	return credential{user: answer.Username, password: answer.Secret}, nil
}
