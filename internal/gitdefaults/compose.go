package gitdefaults

import "strings"

// Config returns the configuration that git inside reads after the system's and before all others, so
// that settings of a repository or of the inside override it. The result is empty without settings.
// ignore is the path of Ignore inside. signs is set if the inside may have commits signed.
func (p *Person) Config(ignore string, signs bool) []byte {
	var b strings.Builder
	line := func(section, key, value string) {
		if value != "" {
			b.WriteString("[" + section + "]\n\t" + key + " = " + quoteValue(value) + "\n")
		}
	}
	line("user", "name", p.Name)
	line("user", "email", p.Email)
	if len(p.Ignore) > 0 {
		line("core", "excludesFile", ignore)
	}
	if signs {
		line("gpg", "format", "ssh")
		line("user", "signingKey", p.Signing.Key)
		if p.Signing.Key == "" {
			line(`gpg "ssh"`, "defaultKeyCommand", "ssh-add -L")
		}
		if p.Signing.Commits {
			line("commit", "gpgSign", "true")
		}
		if p.Signing.Tags {
			line("tag", "gpgSign", "true")
		}
	}
	if b.Len() == 0 {
		return nil
	}
	// A git that is told of this file does not look for the system's by itself.
	return []byte("# From git of the host, at the start of the sandbox. What repositories and ~/.gitconfig say counts more.\n" +
		"[include]\n\tpath = /etc/gitconfig\n" + b.String())
}

// quoteValue writes a value, which must not contain control characters.
func quoteValue(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
