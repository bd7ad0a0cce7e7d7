package main

import "testing"

const smaps = `00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/bothy
Size:                328 kB
Rss:                 200 kB
Pss:                  20 kB
Pss_Dirty:             5 kB
Shared_Clean:        180 kB
Private_Clean:        20 kB
Private_Dirty:         0 kB
VmFlags: rd ex mr mw me
c000000000-c000400000 rw-p 00000000 00:00 0 [anon: Go: heap]
Pss:                 100 kB
Private_Clean:         0 kB
Private_Dirty:       100 kB
7f0000000000-7f0000200000 rw-s 00000000 00:01 1027 /memfd:runsc-memory (deleted)
Pss:                  50 kB
Private_Clean:         0 kB
Private_Dirty:        50 kB
7f0001000000-7f0001001000 rw-p 00000000 00:00 0
Pss:                   4 kB
Private_Dirty:         4 kB
`

func TestParseSmaps(t *testing.T) {
	private, pss := parseSmaps(smaps)
	if private != 124 || pss != 174 {
		t.Errorf("private %d, pss %d KiB; want 124 and 174", private, pss)
	}
}

func TestUsageCountsFilesOnce(t *testing.T) {
	u := usage{private: 10, memfd: map[uint64]int64{1: 5}}
	u.memfd[1] = 5 // another process has it open too
	u.memfd[2] = 7
	if got := u.total(); got != 22 {
		t.Errorf("total %d, want 22", got)
	}
}

func TestFileSystem(t *testing.T) {
	const table = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:20 / /nowhere rw - tmpfs tmpfs rw
24 23 0:21 / /nowhere/deep rw - overlay overlay rw
`
	for path, want := range map[string]string{"/": "ext4", "/nowhereelse": "ext4", "/nowhere": "tmpfs", "/nowhere/deep/er": "overlay"} {
		if got := fileSystem(table, path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
