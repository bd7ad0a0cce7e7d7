package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// other is a file of the source in which some words are replaced.
type other struct {
	file  string
	words map[string]string
}

// buildOther builds a bothy that only the bench has, with a state directory of its own. testdata/NAME.go
// is its network, and some words in files of the source are replaced.
func (b *bench) buildOther(ctx context.Context, name string, others ...other) (*bothy, error) {
	replace := map[string]string{}
	for i, o := range others {
		file := filepath.Join(b.root, o.file)
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		changed := string(source)
		for as, with := range o.words {
			if !strings.Contains(changed, as) {
				return nil, fmt.Errorf("%s no longer says %q: change the bench with it", file, as)
			}
			changed = strings.Replace(changed, as, with, 1)
		}
		own := filepath.Join(b.work, fmt.Sprintf("%s-%d.go", name, i))
		if err := os.WriteFile(own, []byte(changed), 0o644); err != nil {
			return nil, err
		}
		replace[file] = own
	}
	command, testdata := filepath.Join(b.root, "cmd", "bothy-keeper"), filepath.Join(b.root, "bench", "testdata")
	replace[filepath.Join(command, "network.go")] = filepath.Join(testdata, name+".go")
	replace[filepath.Join(command, "nobody.go")] = filepath.Join(testdata, "nobody.go")
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	list := filepath.Join(b.work, name+".json")
	if err := os.WriteFile(list, overlay, 0o644); err != nil {
		return nil, err
	}
	built := &bothy{bin: filepath.Join(b.work, "bin-"+name, "bothy"), home: filepath.Join(b.work, name)}
	built.env = append(cleanEnv(filepath.Join(b.work, "home")), "BOTHY_HOME="+built.home)
	return built, buildBothy(ctx, b.root, list, built.bin)
}
