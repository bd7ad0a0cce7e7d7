package disk

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/keeper/status"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/quota"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func TestDiskLimit(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for name, x := range map[string]struct {
		limit     int64
		had, want quota.Use
	}{
		"nothing was there":       {20 * gib, quota.Use{}, quota.Use{Bytes: 20 * gib, Files: 20 * gib / bytesPerFile}},
		"a small one":             {mib, quota.Use{}, quota.Use{Bytes: mib, Files: minFiles}},
		"as much as it may have":  {gib, quota.Use{Bytes: gib, Files: minFiles}, quota.Use{Bytes: gib, Files: minFiles}},
		"a little more":           {gib, quota.Use{Bytes: gib + 1, Files: 1}, quota.Use{Bytes: gib + 1 + 64*mib, Files: minFiles}},
		"more files":              {gib, quota.Use{Bytes: mib, Files: minFiles + 1}, quota.Use{Bytes: gib, Files: minFiles + 1 + spareFiles}},
		"a limit that was larger": {gib, quota.Use{Bytes: 5 * gib, Files: 5 * minFiles}, quota.Use{Bytes: 5*gib + 64*mib, Files: 5*minFiles + spareFiles}},
	} {
		if got := allowedUse(x.limit, x.had); got != x.want {
			t.Errorf("%s: %+v, not %+v", name, got, x.want)
		}
	}
	for name, x := range map[string]struct{ limit, saved, want int64 }{
		"no limit":          {0, 5 * gib, 0},
		"nothing was saved": {8 * gib, 0, 7 * gib},
		"it fits":           {8 * gib, 7 * gib, 7 * gib},
		"it does not":       {8 * gib, 7*gib + 1, 7*gib + 1 + 64*mib},
	} {
		if got := rootLimit(x.limit, x.saved); got != x.want {
			t.Errorf("%s: the root layer may have %d, not %d", name, got, x.want)
		}
	}
}

func TestOverDisk(t *testing.T) {
	const mib = 1 << 20
	parts := []spec.DiskPart{{What: "the home directory", Bytes: 60 * mib, Files: 3}, {What: "the root layer", Bytes: 5*mib + 300<<10, Files: 4}}
	use := spec.DiskUse{Bytes: 65*mib + 300<<10, Files: 7, Limit: 64 * mib, FilesLimit: 7, Parts: parts}
	for name, x := range map[string]struct {
		change func(*spec.DiskUse)
		want   string
	}{
		"over": {func(*spec.DiskUse) {}, "disk limit of 64 MiB: it keeps 65.3 MiB, most of it in the home directory (60 MiB)"},
		"just": {func(u *spec.DiskUse) { u.Bytes = u.Limit }, ""},
		"over what it was allowed": {
			func(u *spec.DiskUse) { u.Limit, u.Bytes = 128*mib, 128*mib+1 },
			"disk limit of 64 MiB (128 MiB this time, because it was over it when it started): it keeps 128.0 MiB, most of it in the home directory (60 MiB)",
		},
		"not yet":   {func(u *spec.DiskUse) { u.Limit = 128 * mib }, ""},
		"a crowd":   {func(u *spec.DiskUse) { u.Bytes, u.Files = mib, 8 }, "disk limit of 64 MiB: it keeps more than 7 files and directories, most of them in the root layer"},
		"and bytes": {func(u *spec.DiskUse) { u.Bytes, u.Files = 11<<30, 8 }, "disk limit of 64 MiB: it keeps 11.0 GiB, most of it in the home directory (60 MiB)"},
	} {
		u := use
		x.change(&u)
		if got := whyOver(64*mib, u); got != x.want {
			t.Errorf("%s: %q, not %q", name, got, x.want)
		}
		if u.Over() != (x.want != "") {
			t.Errorf("%s: over is %v", name, u.Over())
		}
	}
}

func TestHeldDisk(t *testing.T) {
	limits := []spec.Enforcement{{Limit: spec.LimitPids, Enforced: true}, {Limit: spec.LimitDisk, Enforced: true}}
	blind := enforcement(limits, 2)
	if !limits[1].Enforced || blind[1].Enforced || blind[1].Reason == "" || !blind[0].Enforced {
		t.Errorf("with directories that cannot be looked into: %+v", blind)
	}
	if again := enforcement(blind, 0); !slices.Equal(again, limits) {
		t.Errorf("when they can be again: %+v", again)
	}
}

// watched returns the watch of a sandbox with a file of a MiB in each of its places.
func watched(t *testing.T) *Watch {
	t.Helper()
	dir := store.Sandbox{Dir: t.TempDir()}
	write := func(path string) {
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, make([]byte, 1<<20), 0o600))
	}
	for _, path := range []string{
		dir.Home() + "/f", dir.Private(0) + "/f", dir.Review(0) + "/up/f", dir.Clone(1) + "/tree/f", dir.Layers() + "/root-7/pages.img",
		// These do not count.
		dir.Layers() + "/.root-8/pages.img", dir.Checkpoints() + "/packs/1", dir.Clone(1) + "/inbox/f", dir.Log("output.log"), dir.Private(1) + "/f",
	} {
		write(path)
	}
	return New(Options{
		Dir: dir, Layers: layer.Store{Dir: dir.Layers()}, Limit: 4 << 20,
		Spec: &spec.Sandbox{
			WorkspaceMode: spec.WorkspaceReview, Private: []string{"/w/node_modules"},
			Workspaces: []spec.Mount{{Source: dir.Dir, Target: "/w"}, {Source: "/", Target: "/ro", ReadOnly: true}},
		},
		Status: status.New(dir, slog.New(slog.DiscardHandler), spec.Status{}),
		Event:  func(string, map[string]any) {},
	})
}

func TestCountDisk(t *testing.T) {
	w := watched(t)
	use, whole := w.countUse(t.Context(), &quota.Meter{}, nil)
	if !whole || use.Bytes < 4<<20 || use.Bytes > 4<<20+200<<10 {
		t.Errorf("of four MiB %d bytes were counted, whole: %v", use.Bytes, whole)
	}
	var names []string
	for _, p := range use.Parts {
		names = append(names, p.What)
		if p.Bytes < 1<<20 || p.Bytes > 1<<20+100<<10 {
			t.Errorf("%s: %d bytes", p.What, p.Bytes)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, ", "); got != `the changes of "/w", the home directory, the private directory "/w/node_modules", the root layer` {
		t.Error(got)
	}
	w.Spec.WorkspaceMode = spec.WorkspaceClone
	w.Spec.Workspaces[1].ReadOnly = false
	if use, _ := w.countUse(t.Context(), &quota.Meter{}, nil); !slices.ContainsFunc(use.Parts, func(p spec.DiskPart) bool {
		return p.What == `the clone of "/ro"` && p.Bytes >= 1<<20 && p.Bytes < 1<<20+100<<10
	}) {
		t.Errorf("no clone, or too much of it: %+v", use.Parts)
	}
}

// TestSurveyDisk checks that a sandbox's disk use is known from its last run, unless its keeper
// died: then it is counted before the sandbox goes on.
func TestSurveyDisk(t *testing.T) {
	const spare = spareBytes
	old := &spec.DiskUse{CountedAt: time.Now(), Bytes: 1 << 20, Files: 5}
	for name, x := range map[string]struct {
		limit   int64
		before  *spec.DiskUse
		doubt   bool
		over    bool // by the files that exist
		counted bool
	}{
		"it fits":                {10 << 20, nil, false, false, true},
		"it is over":             {2 << 20, nil, false, true, true},
		"it is known":            {2 << 20, old, false, false, false},
		"its keeper died":        {2 << 20, old, true, true, true},
		"it is known to be over": {512 << 10, old, false, true, true},
	} {
		w := watched(t)
		w.Limit, w.Before, w.Doubt = x.limit, x.before, x.doubt
		w.Survey()
		allowed := w.allowed.Bytes
		if over := allowed > 4<<20+spare && allowed < 5<<20+spare; over != x.over || !over && allowed != x.limit {
			t.Errorf("%s: it may have %d", name, allowed)
		}
		if w.first.Whole != x.counted {
			t.Errorf("%s: counted is %v", name, w.first.Whole)
		}
		if d := w.Status.Get().Disk; d == nil || d.Limit != allowed {
			t.Errorf("%s: the status says %+v", name, d)
		}
	}
	w := watched(t)
	w.Spec.Build = &spec.Build{}
	w.Survey()
	if w.Status.Get().Disk != nil {
		t.Error("a step of a build is watched")
	}
}

// TestJudge checks that too much use stops a sandbox with an explanation. Repeated incomplete
// counts stop it too, but the first of them do not.
func TestJudge(t *testing.T) {
	w := watched(t)
	w.allowed = allowedUse(w.Limit, quota.Use{})
	use, _ := w.countUse(t.Context(), &quota.Meter{}, nil)
	why := ""
	w.Stop = func(reason string) { why = reason }
	if fits := (spec.DiskUse{Bytes: 1, Limit: 4 << 20, FilesLimit: minFiles, Uncounted: 1}); !w.judgeUse(fits, quota.Look{Blind: maxBlind - 1}) {
		t.Error("one that fits, as far as is known, is stopped")
	}
	if w.judgeUse(use, quota.Look{Whole: true}) || !strings.Contains(why, "disk limit of 4 MiB") {
		t.Errorf("one that is over goes on: %q", why)
	}
	if w.judgeUse(spec.DiskUse{Bytes: 1, Limit: 4 << 20, FilesLimit: minFiles, Uncounted: 3, Parts: use.Parts}, quota.Look{Blind: maxBlind}) || !strings.Contains(why, "3 directories") {
		t.Errorf("one that hides what it has goes on: %q", why)
	}
}
