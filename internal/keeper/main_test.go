package keeper

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/keeper/command"
	"github.com/bothy-dev/bothy/internal/keeper/grants"
	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/keeper/session"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// connectInit makes a link and the inside's end of it.
func connectInit(t testing.TB) (*initlink.Link, *keepertest.Inside) {
	t.Helper()
	return keepertest.Connect(t, initlink.New)
}

func bare() *Keeper {
	k := &Keeper{
		spec:     &spec.Sandbox{ID: "0123456789ab", Name: "box", Env: []string{"FROM=spec", "HOME=/elsewhere", "PIP_CERT=/corp.pem"}},
		account:  wire.Account{Name: "me", UID: 1000, GID: 1000, Home: "/home/me", Shell: "/bin/bash"},
		sessions: session.NewTable(), life: newLife("box", func() {}),
	}
	k.commands = command.New(command.Options{Spec: k.spec, Launch: &k.launch, Account: k.account})
	k.launch.Policy = []byte("[]")
	var err error
	if k.grants, err = grants.New(grants.Options{Spec: k.spec, Launch: &k.launch, Log: quiet()}); err != nil {
		panic(err)
	}
	return k
}
