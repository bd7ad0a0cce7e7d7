package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func sampleReport() *Report {
	r := &Report{Version: 1, Date: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)}
	r.Host = Host{Kind: "metal-2cpu-root", CPU: "Model", Cores: 2, Kernel: "6.1", FileSystem: "ext4", Root: true}
	r.Versions = map[string]string{"bothy": "devel", "runc": "runc version 1.1"}
	fill := func(group, name, subject, unit string, samples ...float64) *Series {
		s := r.series(group, name, subject, unit)
		s.Samples = samples
		return s
	}
	r.skip(groupLife, caseRun, "docker", "no daemon")
	fill(groupLife, caseRun, "bothy", unitMS, 90, 110, 100).Target = 120
	fill(groupLife, caseRun, "runc", unitMS, 45, 55, 50)
	fill(groupLife, "version", "bothy", unitMS, 5.125)
	fill(groupMemory, "private, each", "bothy", unitMiB, 20, 21).Target = 40
	fill(groupFiles, "untar", native, unitMS, 10, 20, 30)
	fill(groupFiles, "untar", "bothy workspace", unitMS, 40, 80, 120)
	r.skip(groupFiles, "untar", "runc", "not installed")
	return r
}

func TestMarkdown(t *testing.T) {
	text := sampleReport().markdown()
	for _, want := range []string{
		"| run --rm shell . -- true | bothy | 3 | 100 | 90.0 | 110 | ≤ 120 |  |",
		"| run --rm shell . -- true | runc | 3 | 50.0 | 45.0 | 55.0 |  | 2.00× |",
		"| run --rm shell . -- true | docker | 0 | no daemon | |  |  |  |",
		"| version | bothy | 1 | 5.12 | 5.12 | 5.12 |  |  |",
		"| private, each | MiB | 2 | 20.5 | 20.5 | 20.0 | 21.0 | ≤ 40 |",
		"| untar | 20.0 (10.0–30.0) | 80.0 (40.0–120) 4.00× | – |",
		"Not measured: runc: not installed",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	bothy := strings.Index(text, caseRun+" | bothy")
	if bothy < 0 || bothy > strings.Index(text, caseRun+" | docker") {
		t.Errorf("bothy does not stand first:\n%s", text)
	}
}

func TestColumns(t *testing.T) {
	want := 0
	for line := range strings.Lines(sampleReport().markdown()) {
		n := strings.Count(line, "|")
		switch {
		case n == 0:
			want = 0
		case want == 0:
			want = n
		case n != want:
			t.Errorf("%d bars instead of %d: %s", n, want, line)
		}
	}
}

func TestWrite(t *testing.T) {
	r := sampleReport()
	if got, want := r.path("/src"), "/src/bench/results/2026-01-02-metal-2cpu-root.json"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
	file := filepath.Join(t.TempDir(), "deep", "r.json")
	if err := r.write(file); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(readFile(t, file), &back); err != nil {
		t.Fatal(err)
	}
	if got := back.find(groupLife, caseRun, "bothy").Samples; len(got) != 3 || got[1] != 110 {
		t.Errorf("samples %v", got)
	}
}

func TestChoose(t *testing.T) {
	if w, err := choose("life,files"); err != nil || !w[groupLife] || w[groupMemory] || !w[groupFiles] {
		t.Errorf("%v, %v", w, err)
	}
	if _, err := choose("speed"); err == nil {
		t.Error("an unknown group was accepted")
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// kept reads results from the repository.
func kept(t *testing.T, names ...string) (runs []*Report) {
	t.Helper()
	for _, name := range names {
		r, err := read("results/" + strings.ReplaceAll(name, ",", ",results/"))
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	return runs
}

// TestReadOneMachine checks that results of two machines are not read as one run.
func TestReadOneMachine(t *testing.T) {
	if _, err := read("results/2026-11-20-vm-2cpu-root.json,results/2026-11-24-vm-2cpu-root-agent.json"); err == nil {
		t.Error("two machines are one")
	}
}

// TestReadmeTable checks that the tables of the pages match the results that they name.
func TestReadmeTable(t *testing.T) {
	const day = "2026-11-26-vm-2cpu-root-"
	quick := []string{day + "life-2.json", day + "agent-2.json", day + "network-3.json", day + "checkpoint.json", day + "review.json", day + "loop-5.json"}
	slow := []string{day + "life.json", day + "agent.json", day + "network.json", "2026-11-25-vm-2cpu-root-checkpoint.json", "2026-11-25-vm-2cpu-root-review.json", day + "loop-4.json"}
	runs := kept(t, strings.Join(quick, ","), strings.Join(slow, ","))
	for _, tt := range []struct{ file, want string }{
		{"../docs/guide/docker-sandboxes.md", dockerTable(runs)},
		{"README.md", goalsTable(runs)},
	} {
		if page := string(readFile(t, tt.file)); !strings.Contains(page, tt.want) {
			t.Errorf("%s has not the table\n%s", tt.file, tt.want)
		}
	}
}
