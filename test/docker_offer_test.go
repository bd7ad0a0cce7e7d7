package test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/image/imagetest"
)

// TestDockerOffer runs `bothy run --docker` at a terminal over a Debian image without dockerd. Bothy
// offers to install it, and then allows Debian's packages and runs apt-get as root. The image's
// apt-get is a script that prints its arguments.
func TestDockerOffer(t *testing.T) {
	l := newLodging(t)
	file := filepath.Join(l.home.also, "debian.tar")
	imagetest.New(t, imagetest.Config{}, programs(t), imagetest.Layer(t,
		imagetest.File("etc/os-release", "NAME=\"Debian GNU/Linux\"\nID=debian\n"),
		imagetest.File("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"), imagetest.File("etc/group", "root:x:0:\n"),
		imagetest.Program("usr/bin/apt-get", "#!/bin/sh\necho asked: $* as $(id -u)\ntest $1 = -q\n"),
	)).Save(t, file, "debian:v1")
	l.bothy("template", "load", file)

	tm := l.terminal("run", "--docker", "-t", "debian:v1", "--name", "no", "shell", ".", "--", "sh", "-c", "echo works")
	tm.expect(`sandbox no has no dockerd\. Install docker\.io.*\[y/N\]`)
	tm.press("\r")
	tm.expect(`to install it there: bothy policy allow --preset debian --sandbox no && .*works`)
	if tm.code() != 0 || strings.Contains(l.bothy("policy", "ls", "--sandbox", "no"), "debian") {
		t.Error("who did not ask for it has other rules")
	}

	tm = l.terminal("run", "--docker", "-t", "debian:v1", "--name", "yes", "shell", ".", "--", "sh", "-c", "echo works")
	tm.expect(`\[y/N\]`)
	tm.press("y\r")
	tm.expect(`  \| asked: -q update as 0.*  \| asked: -yq install docker\.io as 0.*not installed in sandbox yes: apt-get ended with code 1.*works`)
	if tm.code() != 0 || !strings.Contains(l.bothy("policy", "ls", "--sandbox", "yes"), "debian") {
		t.Error("who asked for it has no rules for it")
	}
	l.bothy("rm", "-f", "yes", "no")
}
