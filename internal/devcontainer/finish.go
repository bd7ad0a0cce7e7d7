package devcontainer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Base is the base image in the Dockerfile of [Finish]: a name that no registry owns.
const Base = "devcontainer.invalid/base"

// FeatureImage is the name of the image that holds the files of the n-th feature in a directory, if the
// feature is not a local one.
func FeatureImage(n int) string { return fmt.Sprintf("devcontainer.invalid/feature-%d", n) }

// stage is the directory of features during their installation, in the image.
const stage = "/tmp/.devcontainer-features"

// Finish returns a Dockerfile that completes the image that a file names or builds: it installs features,
// and sets the variables and the user. It is empty if it would do nothing. dir is the directory of
// features in images of their own, before is the user of the image.
func Finish(features []*Feature, dir string, env []Variable, user, containerUser, before string) (string, error) {
	if err := checkUser(before); err != nil {
		return "", &spec.Error{Op: "the image's USER", Err: err}
	}
	before = cmp.Or(before, "root")
	user, containerUser = cmp.Or(user, before), cmp.Or(containerUser, before)
	if len(features) == 0 && len(env) == 0 && user == before {
		return "", nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "FROM %s\n", Base)
	if len(features) > 0 {
		fmt.Fprintln(&b, "USER root")
	}
	for i, f := range features {
		to := fmt.Sprintf("%s/%d", stage, i)
		if f.local {
			fmt.Fprintf(&b, "COPY %s\n", jsonWords("./"+f.localDir()+"/", to+"/"))
		} else {
			fmt.Fprintf(&b, "COPY --from=%s %s\n", FeatureImage(i), jsonWords("/"+dir+"/", to+"/"))
		}
		for _, v := range f.ContainerEnv {
			if err := setEnv(&b, v, true); err != nil {
				return "", fmt.Errorf("feature %s: %w", f.ID, err)
			}
		}
		fmt.Fprintf(&b, "RUN %s\n", jsonWords("/bin/sh", "-c", install(f, to, user, containerUser)))
	}
	for _, v := range env {
		if err := setEnv(&b, v, false); err != nil {
			return "", err
		}
	}
	fmt.Fprintf(&b, "USER %s\n", user)
	return b.String(), nil
}

// Title says which feature a step of Finish's Dockerfile is for.
func Title(features []*Feature, step string) string {
	for i, f := range features {
		switch at := fmt.Sprintf("%s/%d", stage, i); {
		case strings.Contains(step, at+"/]"):
			return "copy feature " + f.ID
		case strings.Contains(step, "cd "+quoted(at)+";"):
			return "install feature " + f.ID
		}
	}
	return step
}

// jsonWords returns the JSON form of an instruction, in which no character is special.
func jsonWords(list ...string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(list) // strings can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}

// setEnv sets a variable. Features may refer to other variables in its value.
func setEnv(b *strings.Builder, v Variable, expands bool) error {
	if strings.ContainsAny(v.Value, "\n\r") {
		return spec.Errorf(spec.ErrUsage, "the value of %s has a line break: a Dockerfile cannot have it", v.Name)
	}
	value := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v.Value)
	if expands {
		value = strings.ReplaceAll(value, "${containerEnv:", "${")
	} else {
		value = strings.ReplaceAll(value, "$", `\$`)
	}
	fmt.Fprintf(b, "ENV %s=\"%s\"\n", v.Name, value)
	return nil
}

// install returns a script that installs a feature, and then removes the feature's files.
func install(f *Feature, dir, user, containerUser string) string {
	env := map[string]string{"_REMOTE_USER": userName(user), "_CONTAINER_USER": userName(containerUser)}
	for key, value := range f.Options {
		env[optionName(key)] = value
	}
	var b strings.Builder
	b.WriteString("set -e; ")
	for _, key := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(&b, "export %s=%s; ", key, quoted(env[key]))
	}
	b.WriteString(`home() { while IFS=: read -r n _ u _ _ h _; do if [ "$n" = "$1" ] || [ "$u" = "$1" ]; then echo "$h"; return; fi; done < /etc/passwd; }; `)
	b.WriteString(`_REMOTE_USER_HOME=$(home "$_REMOTE_USER"); _CONTAINER_USER_HOME=$(home "$_CONTAINER_USER"); export _REMOTE_USER_HOME _CONTAINER_USER_HOME; `)
	fmt.Fprintf(&b, "cd %s; chmod +x install.sh; ./install.sh; cd /; rm -rf %s", quoted(dir), stage)
	return b.String()
}

// userName returns a user without the group.
func userName(user string) string {
	user, _, _ = strings.Cut(user, ":")
	return user
}

// optionName returns the variable that holds an option for the install script.
func optionName(option string) string {
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune(letters+digits, r) {
			return r
		}
		return '_'
	}, option)
	trimmed := strings.TrimLeft(plain, "_0123456789")
	if trimmed != plain || trimmed == "" {
		trimmed = "_" + trimmed
	}
	return strings.ToUpper(trimmed)
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
