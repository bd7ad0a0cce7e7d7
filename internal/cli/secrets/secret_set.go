package secrets

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// sourceFlags are the flags for sources other than standard input.
type sourceFlags struct {
	variable, command, file, login string
	keyring                        []string
}

func (a *app) secretSetCommand() *cobra.Command {
	var f sourceFlags
	var service, token string
	var protect, global, force bool
	c := &cobra.Command{
		Use: "set NAME", Short: "Add a secret, or give one another value",
		Long: `Adds a secret or gives one another value, which sandboxes that have a lease use
from then on. The value comes from standard input or is asked for; it is never an
argument, which every process of the host could read. With a flag it is not stored
at all, but read from there whenever a sandbox starts.

NAME is of your choice. If it is that of a service, or of a variable a service is
known by, the rest is known too: ` + serviceNames() + `.`,
		Example: "  bothy secret set anthropic < key.txt\n  bothy secret set github --command 'gh auth token'\n" +
			"  bothy secret set db-token --keyring service=db --keyring username=me\n" +
			"  bothy secret set claude-login --login claude",
		ValidArgs: vaultServices(),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || token != "" {
				return spec.Errorf(spec.ErrUsage, "the value of a secret is not taken from the command line, where every process can read it").
					WithHint("bothy secret set NAME reads it from standard input, or asks for it; consider that value known and change it")
			}
			return cmdline.Exactly(1, "a name for the secret")(cmd, args)
		},
		RunE: a.OnEngine(func(cmd *cobra.Command, args []string, e *engine.Engine) error {
			n := credential.NewSecret{Name: args[0], Service: service, Passphrase: protect}
			err := vault.CheckName(n.Name)
			if err != nil {
				return err
			}
			if n.Source, err = f.source(); err != nil {
				return err
			}
			if n.Source.Kind == vault.SourceStored {
				if n.Value, err = a.readValue(n.Name); err != nil {
					return err
				}
			}
			return e.Credentials().SetSecret(cmd.Context(), n)
		}),
	}
	fs := c.Flags()
	fs.StringVar(&service, "service", "", "its service, if the name does not say: "+serviceNames())
	fs.StringVar(&f.variable, "env", "", "take it from this variable of whoever starts a sandbox")
	fs.StringVar(&f.command, "command", "", "take it from what this shell command prints")
	fs.StringVar(&f.file, "file", "", "take it from this file")
	fs.StringVar(&f.login, "login", "", "take it from what this agent logged in with on the host, and renew that when it ends")
	fs.StringArrayVar(&f.keyring, "keyring", nil, "take it from the desktop keyring's item with ATTRIBUTE=VALUE; repeatable")
	fs.BoolVar(&protect, "passphrase", false, "lock the key of the secrets with a passphrase; with the first value that is stored")
	fs.BoolVarP(&global, "global", "g", false, "accepted for docker's sake: every secret is")
	fs.BoolVarP(&force, "force", "f", false, "accepted for docker's sake: a value is replaced without a question")
	fs.StringVarP(&token, "token", "t", "", "refused")
	for _, name := range []string{"token", "global", "force"} {
		_ = fs.MarkHidden(name)
	}
	cmdline.CompleteFlag(c, "service", cmdline.OneOf(vaultServices()...))
	cmdline.CompleteFlag(c, "file", cmdline.FileNames)
	cmdline.CompleteFlag(c, "login", a.AgentsWithLogin)
	return c
}

// serviceNames lists the known services.
func serviceNames() string {
	return strings.Join(vaultServices(), " ")
}

// source returns the source of the flags.
func (f *sourceFlags) source() (vault.Source, error) {
	var list []vault.Source
	if f.variable != "" {
		if err := vault.CheckVariable(f.variable); err != nil {
			return vault.Source{}, err
		}
		list = append(list, vault.Source{Kind: vault.SourceEnvironment, Variable: f.variable})
	}
	if f.command != "" {
		list = append(list, vault.Source{Kind: vault.SourceCommand, Command: []string{"/bin/sh", "-c", f.command}})
	}
	if f.file != "" {
		path, err := filepath.Abs(f.file)
		if err != nil {
			return vault.Source{}, err
		}
		list = append(list, vault.Source{Kind: vault.SourceFile, Path: path})
	}
	if f.login != "" {
		list = append(list, vault.Source{Kind: vault.SourceLogin, Agent: f.login})
	}
	if len(f.keyring) > 0 {
		attributes := map[string]string{}
		for _, kv := range f.keyring {
			k, v, ok := strings.Cut(kv, "=")
			if !ok || k == "" {
				return vault.Source{}, spec.Errorf(spec.ErrUsage, "--keyring %q is not ATTRIBUTE=VALUE", kv).
					WithHint("as secret-tool lookup takes them")
			}
			attributes[k] = v
		}
		list = append(list, vault.Source{Kind: vault.SourceKeyring, Attributes: attributes})
	}
	switch len(list) {
	case 0:
		return vault.Source{Kind: vault.SourceStored}, nil
	case 1:
		return list[0], nil
	}
	return vault.Source{}, spec.Errorf(spec.ErrUsage, "a value comes from one source: --env, --command, --file, --login and --keyring exclude each other")
}

// maxInput bounds a value on standard input, in bytes.
const maxInput = 64 << 10

// readValue reads a value: typed by the user, or else from standard input.
func (a *app) readValue(name string) ([]byte, error) {
	if a.CanAsk() {
		return a.AskSecret("value of " + name)
	}
	if term.IsTerminal(a.In) {
		return nil, spec.Errorf(spec.ErrUsage, "the value cannot be asked for: standard error is not a terminal, and standard input is one, which would show the value").
			WithHint("pipe it in: bothy secret set %s < FILE", name)
	}
	value, err := io.ReadAll(io.LimitReader(a.In, maxInput+1))
	switch {
	case err != nil:
	case len(value) > maxInput: // a part of it may look like a value
		err = spec.Errorf(spec.ErrUsage, "there are more than %d bytes on standard input", maxInput)
	case len(value) == 0:
		err = spec.Errorf(spec.ErrUsage, "standard input has no value").
			WithHint("pipe it in: bothy secret set %s < FILE", name)
	}
	if err != nil {
		return nil, fmt.Errorf("read the value: %w", err)
	}
	return value, nil
}
