package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
)

// askVersion has the commands with which programs print their version.
var askVersion = map[string][]string{
	"bwrap":   {"bwrap", "--version"},
	"runc":    {"runc", "--version"},
	"docker":  {"docker", "info", "--format", "{{.ServerVersion}}"}, // of the daemon: the client alone runs nothing
	"git":     {"git", "--version"},
	"tar":     {"tar", "--version"},
	"node":    {"node", "--version"},
	"npm":     {"npm", "--version"},
	"sqlite3": {"sqlite3", "--version"},
	"rg":      {"rg", "--version"},
}

// versions lists the versions of the measured programs. It leaves out missing programs.
func versions(ctx context.Context, root string, b *bothy) map[string]string {
	list := map[string]string{"commit": commit(ctx, root)}
	var own struct{ Version, GVisor, Go string }
	if text, err := output(b.command(ctx, "version", "--json")); err == nil {
		_ = json.Unmarshal([]byte(text), &own)
		list["bothy"], list["gvisor"], list["go"] = own.Version, own.GVisor, own.Go
	}
	for name, argv := range askVersion {
		text, err := output(exec.CommandContext(ctx, argv[0], argv[1:]...))
		line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
		if err == nil && line != "" {
			list[name] = line
		}
	}
	return list
}

// commit returns the commit that is measured. It marks a tree with changes outside of this directory.
func commit(ctx context.Context, root string) string {
	git := func(args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...)
	}
	hash, err := output(git("rev-parse", "--short=12", "HEAD"))
	if err != nil {
		return "unknown"
	}
	hash = strings.TrimSpace(hash)
	if changes, err := output(git("status", "--porcelain", "--", ".", ":!bench")); err != nil || changes != "" {
		hash += "-dirty"
	}
	return hash
}
