package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fewestPackages is the minimum size of an installation that is worth measuring.
const fewestPackages = 50

// seedNPM makes a project that can be installed without a registry: its dependencies are the packages of
// npm itself, as archives.
func seedNPM(ctx context.Context, _ *bench, dir string) error {
	global, err := output(exec.CommandContext(ctx, "npm", "root", "--global"))
	if err != nil {
		return err
	}
	from := filepath.Join(strings.TrimSpace(global), "npm", "node_modules")
	names, err := packageNames(from)
	if err != nil {
		return err
	}
	if len(names) < fewestPackages {
		return fmt.Errorf("this npm brings only %d packages", len(names))
	}
	if err := os.Mkdir(filepath.Join(dir, "packages"), 0o755); err != nil {
		return err
	}
	wanted := map[string]string{}
	for _, name := range names {
		archive := "packages/" + strings.ReplaceAll(strings.TrimPrefix(name, "@"), "/", "-") + ".tgz"
		if err := packPackage(filepath.Join(from, name), filepath.Join(dir, archive)); err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
		wanted[name] = "file:" + archive
	}
	project, err := json.Marshal(map[string]any{"name": "bench", "version": "1.0.0", "private": true, "dependencies": wanted})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), project, 0o644); err != nil {
		return err
	}
	lock := command(ctx, cleanEnv(dir), "npm", "install", "--package-lock-only", "--offline", "--no-audit", "--no-fund", "--loglevel=error")
	lock.Dir = dir
	_, err = output(lock)
	return errors.Join(err, os.RemoveAll(filepath.Join(dir, ".npm")))
}

// packageNames lists the packages in a node_modules directory.
func packageNames(dir string) (names []string, err error) {
	found, err := filepath.Glob(filepath.Join(dir, "*", "package.json"))
	if err != nil {
		return nil, err
	}
	scoped, err := filepath.Glob(filepath.Join(dir, "@*", "*", "package.json"))
	for _, file := range append(found, scoped...) {
		name, _ := filepath.Rel(dir, filepath.Dir(file))
		names = append(names, name)
	}
	return names, err
}

// packPackage makes an archive of a package, without its dependencies: the project has them
// already, or npm would have to fetch them.
func packPackage(dir, archive string) error {
	out, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer out.Close()
	zip := gzip.NewWriter(out)
	w := tar.NewWriter(zip)
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if err == nil && e.Name() == "node_modules" {
				return fs.SkipDir
			}
			return err
		}
		if !e.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil && rel == "package.json" {
			content, err = standalone(content)
		}
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: "package/" + filepath.ToSlash(rel), Mode: 0o644, Size: int64(len(content))})
		}
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	})
	return errors.Join(err, w.Close(), zip.Close())
}

// standalone reduces a package.json to the fields that identify the package.
func standalone(content []byte) ([]byte, error) {
	var p struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	if err := json.Unmarshal(content, &p); err != nil {
		return nil, err
	}
	return json.Marshal(p)
}
